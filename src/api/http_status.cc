#include "api/http_status.h"

#include <string>

#include "base/json_text.h"

namespace penstock::api {

void HttpMetrics::Handle(const http::Request&, std::string_view, const HttpSlot& slot) {
  turn_.Answer(slot, [this](std::string& out, const http::ReplyShape& shape) {
    http::ResponseWriter writer(out, shape, 200);
    writer.Header("Cache-Control", "no-store");
    server_.AppendMetrics(writer.BeginBody("text/plain; version=0.0.4; charset=utf-8"));
    writer.EndBody();
  });
}

void HttpHealth::Handle(const http::Request&, std::string_view, const HttpSlot& slot) {
  turn_.Answer(slot, [](std::string& out, const http::ReplyShape& shape) {
    WriteJson(out, shape, 200, R"({"alive":true})");
  });
}

void HttpReady::Handle(const http::Request&, std::string_view, const HttpSlot& slot) {
  std::string reason;
  const bool ready = server_.Ready(reason);
  std::string json = R"({"ready":true})";
  if (!ready) {
    json = R"({"ready":false,"reason":)";
    AppendJsonString(json, reason);
    json += '}';
  }
  turn_.Answer(slot, [&](std::string& out, const http::ReplyShape& shape) {
    WriteJson(out, shape, ready ? 200 : 503, json);
  });
}

}  // namespace penstock::api
