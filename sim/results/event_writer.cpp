#include "sim/results/event_writer.hpp"

namespace moelab {

TimelineForm timeline_form(const std::filesystem::path& file) {
  std::filesystem::path name = file.filename();
  if (name.extension() == ".gz") name = name.stem();
  return name.extension() == ".pftrace" || name.extension() == ".perfetto-trace" ? TimelineForm::perfetto
                                                                                 : TimelineForm::json;
}

std::unique_ptr<EventWriter> event_writer(TimelineForm form, const TimelineTitle& title) {
  return form == TimelineForm::perfetto ? perfetto_event_writer(title) : json_event_writer(title);
}

std::string timeline_file(TimelineForm form, const std::vector<std::string>& processes) {
  const bool json = form == TimelineForm::json;
  std::string out = json ? "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" : "";
  for (std::size_t i = 0; i < processes.size(); ++i) {
    if (json && i > 0) out += ",\n";
    out += processes[i];
  }
  return json ? out + "\n]}\n" : out;
}

}  // namespace moelab
