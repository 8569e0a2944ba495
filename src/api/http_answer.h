// What every HTTP verb answers with: a decision with its headers, an error as a problem document.
//
// Plain functions for a session's Answer(): each appends exactly one response.
//
// Thread contract: pure functions of the caller's thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/response_writer.h"
#include "penstock/decision.h"

namespace penstock::api {

// The body of /v1/check, with the headers of design section 8.
void WriteDecision(std::string& out, const http::ReplyShape& shape, const Decision& decision);
// The same for what is done or told whatever the limits say (a settlement, a look): 200, and 503 when the engine could not be asked.
void WriteDone(std::string& out, const http::ReplyShape& shape, const Decision& decision);

// RateLimit-Policy, RateLimit, Retry-After, X-RateLimit-*, Cache-Control.
void WriteRateHeaders(http::ResponseWriter& writer, const Decision& decision);

int HttpStatus(const Error& error);
void WriteError(std::string& out, const http::ReplyShape& shape, const Error& error);
// The problem alone, as the item of an array: with `"status"`.
void AppendErrorItem(std::string& out, const Error& error);

// 200 with an array of what is JSON already.
void WriteArray(std::string& out, const http::ReplyShape& shape, std::span<const std::string> items);
void WriteJson(std::string& out, const http::ReplyShape& shape, int status, std::string_view json);

}  // namespace penstock::api
