#include "sim/sweep/refused_run.hpp"

#include "models/json.hpp"
#include "models/nothing_fits.hpp"

namespace moelab {

std::string refused_run(const InputError& error) {
  const nlohmann::json json{{"refused", error.problems().front().what},
                            {"lacks_memory", dynamic_cast<const NothingFits*>(&error) != nullptr}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace moelab
