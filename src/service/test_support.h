// For tests of the service: policies from YAML-free definitions, and a receiver that keeps what it heard.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "policy/policy.h"
#include "service/decider.h"

namespace penstock::service {

inline policy::LimitDefinition MakeLimit(std::string name, std::vector<std::string> key,
                                         std::string_view rate) {
  policy::LimitDefinition limit;
  limit.name = std::move(name);
  for (std::string& part : key) limit.key.push_back({.attribute = std::move(part)});
  limit.rate = policy::ParseRate(rate).value();
  return limit;
}

inline policy::LimitDefinition MakePermits(std::string name, std::vector<std::string> key, int64_t permits,
                                           Micros lease = Seconds(30)) {
  policy::LimitDefinition limit;
  limit.name = std::move(name);
  for (std::string& part : key) limit.key.push_back({.attribute = std::move(part)});
  limit.permits = permits;
  limit.lease = lease;
  return limit;
}

inline policy::Condition Equals(std::string attribute, std::string value) {
  return {std::move(attribute), {policy::MatcherKind::kExact, std::move(value), {}, 0}, 0};
}

// One domain, "api".
inline std::unique_ptr<policy::Policy> MakePolicy(std::vector<policy::LimitDefinition> limits) {
  policy::PolicyDefinition definition;
  definition.domains.push_back({"api", std::move(limits), "test.yaml", 1});
  policy::Diagnostics diagnostics;
  auto policy = policy::Policy::Build(definition, {true, {}}, diagnostics);
  EXPECT_EQ(diagnostics.Text(), "");
  return policy;
}

// What a receiver heard, by token. An answer that comes twice is a failure.
class Answers final : public Receiver {
 public:
  struct Answer {
    Decision decision;
    std::optional<Error> error;
  };

  void Decided(uint64_t token, const Result<const Decision*>& decision) noexcept override {
    EXPECT_FALSE(answers_.contains(token)) << "answered twice: " << token;
    Answer& answer = answers_[token];
    if (decision) {
      answer.decision = **decision;
    } else {
      answer.error = decision.error();
    }
    order_.push_back(token);
  }
  bool has(uint64_t token) const { return answers_.contains(token); }
  const Decision& operator[](uint64_t token) {
    EXPECT_TRUE(has(token)) << "not answered: " << token;
    EXPECT_FALSE(answers_[token].error.has_value()) << answers_[token].error->message;
    return answers_[token].decision;
  }
  const Error& error(uint64_t token) {
    EXPECT_TRUE(has(token)) << "not answered: " << token;
    if (!answers_[token].error) {
      ADD_FAILURE() << "no error: " << token;
      answers_[token].error.emplace();
    }
    return *answers_[token].error;
  }
  size_t size() const { return answers_.size(); }
  const std::vector<uint64_t>& order() const { return order_; }
  void Clear() {
    answers_.clear();
    order_.clear();
  }

 private:
  std::map<uint64_t, Answer> answers_;
  std::vector<uint64_t> order_;
};

inline core::RateSpec Spec(std::string_view rate, std::optional<int64_t> burst = std::nullopt) {
  const policy::Rate parsed = policy::ParseRate(rate).value();
  core::RateSpec spec;
  spec.kind = parsed.kind;
  spec.count = parsed.count;
  spec.period = parsed.period;
  spec.burst = burst;
  return spec;
}

}  // namespace penstock::service
