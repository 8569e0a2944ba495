// A small service that calls a third-party API (a geocoder, here a function) and must stay within what its provider
// allows: at most 10 calls at once and 100 a second over all customers, a fair share each, and a budget of bytes a
// month. The limiter lives in this process; nothing is to be installed or asked.
//
//   embedded_service limits.yaml
#include <penstock/limiter.h>

#include <array>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

namespace {

// The third party. Answers with what it sent, in bytes.
int64_t Geocode(std::string_view address) { return 400 + static_cast<int64_t>(address.size()); }

class Geocoder {
 public:
  explicit Geocoder(penstock::Limiter& limiter) : limiter_(limiter) {}

  // Looks an address up for a customer, if the limits let it go now.
  bool Locate(std::string_view customer, std::string_view address, std::string_view request_id) {
    const std::array<penstock::Attribute, 1> attributes = {{{"customer", customer}}};
    // One request, and as many bytes as an answer may have; what it really had is settled below.
    const std::array<penstock::UnitCost, 2> reserve = {{{"requests", 1}, {"bytes", 1'000}}};
    penstock::CheckOptions options;
    options.costs = reserve;
    options.request_id = request_id;
    const penstock::Decision decision = limiter_.Check("geocoder", attributes, options);
    if (decision.error) {
      std::printf("%s: wrong request: %s\n", customer.data(), decision.error->message.c_str());
      return false;
    }
    if (!decision.allowed) {
      std::printf("%s: %s, try again in %lld ms\n", customer.data(), ToString(decision.outcome).data(),
                  decision.retry_after ? static_cast<long long>((decision.retry_after->count() + 999) / 1'000)
                                       : -1LL);
      return false;
    }
    const int64_t bytes = Geocode(address);
    const std::array<penstock::UnitCost, 1> used = {{{"bytes", bytes}}};
    const penstock::Decision settled = limiter_.Settle("geocoder", attributes, request_id, used);
    std::printf("%s: located with %lld bytes, %lld left this month\n", customer.data(),
                static_cast<long long>(bytes),
                settled.remaining ? static_cast<long long>(*settled.remaining) : -1LL);
    return true;
  }

 private:
  penstock::Limiter& limiter_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: embedded_service limits.yaml\n");
    return 2;
  }
  penstock::LimiterOptions options;
  options.policy_file = argv[1];
  penstock::Expected<penstock::Limiter> limiter = penstock::Limiter::Open(options);
  if (!limiter) {
    std::fprintf(stderr, "%s\n", limiter.error().message.c_str());
    return 2;
  }
  std::printf("penstock %s\n", penstock::Version());

  Geocoder geocoder(*limiter);
  int located = 0;
  for (int call = 0; call < 6; ++call) {
    const std::string id = "acme-" + std::to_string(call);
    located += geocoder.Locate("acme", "1 Main Street", id) ? 1 : 0;
  }
  located += geocoder.Locate("globex", "2 Side Street", "globex-0") ? 1 : 0;
  std::printf("%d of 7 calls went out\n", located);
  return 0;
}
