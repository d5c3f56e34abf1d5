#include "models/config_store.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "models/input_error.hpp"
#include "models/yaml_reader.hpp"
#include "tests/scratch_folder.hpp"

namespace moelab::config_store_test {

namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kinds = {"models", "devices", "systems", "scenarios", "quality"};

std::string file_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string refusal(const std::string& kind, const std::string& name, const fs::path& base = {}) {
  try {
    find_config(kind, name, base);
  } catch (const InputError& error) {
    return error.what();
  }
  return "found";
}

/// A folder with `base` and `work` in it; `work` is the working directory meanwhile.
class WorkFolder {
 public:
  WorkFolder() : before_(fs::current_path()) {
    fs::create_directories(folder_ / "work");
    fs::create_directories(folder_ / "base");
    fs::current_path(folder_ / "work");
  }
  ~WorkFolder() { fs::current_path(before_); }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  fs::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  fs::path path() const { return folder_.path(); }

 private:
  fs::path before_;
  test::ScratchFolder folder_;
};

}  // namespace

TEST_CASE("the embedded configurations are the files of configs/, byte for byte") {
  const WorkFolder elsewhere;  // nothing to find on disk from here
  std::size_t compared = 0;
  for (const std::string& kind : kinds) {
    std::vector<std::string> stems;
    const fs::path folder = fs::path(MOELAB_SOURCE_DIR) / "configs" / kind;
    if (!fs::exists(folder)) continue;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() != ".yaml") continue;
      const std::string stem = entry.path().stem().string();
      stems.push_back(stem);
      const std::string text = file_text(entry.path());
      const std::string name = "configs/" + kind + "/" + stem + ".yaml";
      for (const std::string& asked : {stem, stem + ".yaml", kind + "/" + stem + ".yaml", name}) {
        INFO(asked);
        const ConfigText found = find_config(kind, asked);
        CHECK(found.text == text);
        CHECK(found.name == name);
      }
      // As a configuration that is embedded itself would name it.
      CHECK(find_config(kind, "../" + kind + "/" + stem + ".yaml", "configs/scenarios").name == name);
      ++compared;
    }
    std::sort(stems.begin(), stems.end());
    CHECK(config_names(kind) == stems);
  }
  CHECK(compared > 0);
}

TEST_CASE("every embedded configuration is strict YAML") {
  for (const std::string& kind : kinds) {
    for (const std::string& name : config_names(kind)) {
      Problems problems;
      const ConfigText config = find_config(kind, name);
      const YamlDocument document = YamlDocument::from_text(config.name, config.text, problems);
      CHECK(document.node().is_map());
      CHECK_NOTHROW(problems.throw_if_any());
    }
  }
}

TEST_CASE("a path is looked for beside the naming file, then here, then among the embedded") {
  const WorkFolder scratch;
  const fs::path base = scratch.path() / "base";
  const std::string embedded = config_names("models").at(0) + ".yaml";

  CHECK(find_config("models", embedded, base).name == "configs/models/" + embedded);
  scratch.write("work/" + embedded, "here");
  CHECK(find_config("models", embedded, base).text == "here");
  CHECK(find_config("models", embedded, base).name == embedded);
  scratch.write("base/" + embedded, "beside");
  CHECK(find_config("models", embedded, base).text == "beside");
  CHECK(find_config("models", embedded, base).name == (base / embedded).string());
  CHECK(find_config("models", embedded).text == "here");
  // A stem always means the embedded file, whatever lies around.
  CHECK(find_config("models", config_names("models").at(0), base).name == "configs/models/" + embedded);

  const fs::path absolute = scratch.write("base/mine.json", "{}");
  CHECK(find_config("devices", absolute.string()).text == "{}");
  CHECK(find_config("devices", "mine.json", base).text == "{}");
  scratch.write("base/mine.yml", "a: 1");
  CHECK(find_config("devices", "mine.yml", base).text == "a: 1");
}

TEST_CASE("a configuration that is not there is an input error that helps") {
  const WorkFolder scratch;
  const std::string stem = config_names("models").at(0);
  CHECK(refusal("models", stem + "x").find("unknown model '" + stem + "x' (did you mean '" + stem + "'?)") ==
        0);
  CHECK(refusal("models", stem + "x.yaml").find("(did you mean '" + stem + "'?)") != std::string::npos);
  CHECK(refusal("models", "/no/such/file.yaml").find("no model file '/no/such/file.yaml'") == 0);
  CHECK(refusal("models", "").find("unknown model ''") == 0);
  CHECK(refusal("models", "../models/" + stem).find("unknown model") == 0);
  // A folder is not a file, and a device is not a model.
  fs::create_directories(scratch.path() / "work" / "folder.yaml");
  CHECK(refusal("models", "folder.yaml").find("no model file 'folder.yaml'") == 0);
  CHECK(refusal("devices", "configs/models/" + stem + ".yaml").find("no device file") == 0);
  CHECK(refusal("nothing", stem).find("unknown nothing") == 0);
  CHECK(config_names("nothing").empty());
}

}  // namespace moelab::config_store_test
