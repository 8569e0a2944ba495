// Whether the sentinels would carry a failover out: they agree about the master, enough of them answer, and there is
// something to promote.
//
// Thread contract: pure function over what was read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/redis/checkup/report.h"
#include "engine/redis/checkup/value.h"

namespace penstock::checkup {

// What one sentinel said.
struct SentinelView {
  std::string where;
  std::string refused;  // it did not answer, or not this; why
  std::string master;   // host:port by SENTINEL GET-MASTER-ADDR-BY-NAME; empty: it does not know the name
  Fields fields;        // SENTINEL MASTER
  Value replicas;       // SENTINEL REPLICAS, one list of pairs each
  std::string quorum;   // SENTINEL CKQUORUM's words: OK … or NOQUORUM …; empty: not asked
};

// "sentinel". `sentinels` has those of the URL and those that they named.
Finding CheckSentinels(const std::vector<SentinelView>& sentinels, const std::string& master_name);

}  // namespace penstock::checkup
