#include "cli/completion_scripts.hpp"

#include <algorithm>
#include <functional>
#include <map>

namespace moelab::cli {
namespace {

/// In single quotes, for any of the three shells.
std::string in_quotes(const std::string& text, const std::string& escaped_quote = "'\\''") {
  std::string out = "'";
  for (const char c : text)
    if (c == '\'')
      out += escaped_quote;
    else
      out += c == '\n' ? ' ' : c;
  return out + "'";
}

/// What stands before the details.
std::string short_help(const std::string& help) {
  return help.substr(0, std::min({help.find(':'), help.find(';'), help.find(" ("), help.size()}));
}

std::string spaced(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

/// Places on a line, as the scripts' functions name them: "/run --format" is the value of an option, "/run 0"
/// the first positional argument, "/run" an option itself.
struct Place {
  std::string name;
  std::vector<CompletedWord> words;
};

std::vector<CompletedWord> without_help(const std::vector<std::string>& names) {
  std::vector<CompletedWord> words;
  for (const std::string& name : names) words.push_back({name, ""});
  return words;
}

std::vector<Place> value_places(const std::vector<CompletedCommand>& commands) {
  std::vector<Place> places;
  for (const CompletedCommand& command : commands) {
    for (const CompletedValue& option : command.options)
      for (const std::string& name : option.names)
        if (!option.values.empty())
          places.push_back({command.path + " " + name, without_help(option.values)});
    for (std::size_t i = 0; i < command.positionals.size(); ++i)
      if (const std::vector<std::string>& values = command.positionals[i].values; !values.empty())
        places.push_back({command.path + " " + std::to_string(i), without_help(values)});
  }
  return places;
}

std::vector<Place> command_places(const std::vector<CompletedCommand>& commands) {
  std::vector<Place> places;
  for (const CompletedCommand& command : commands)
    if (!command.commands.empty()) places.push_back({command.path + " 0", command.commands});
  return places;
}

std::vector<Place> option_places(const std::vector<CompletedCommand>& commands) {
  std::vector<Place> places;
  for (const CompletedCommand& command : commands) {
    places.push_back({command.path, {}});
    for (const CompletedValue& option : command.options)
      for (const std::string& name : option.names)
        places.back().words.push_back({name, short_help(option.help)});
  }
  return places;
}

/// What a script says of a place's words; places of which it says the same share a line.
using Says = std::function<std::string(const std::vector<CompletedWord>&)>;

std::string cases(const std::vector<Place>& places, const Says& says) {
  std::map<std::string, std::string> labels;
  for (const Place& place : places) {
    std::string& all = labels[says(place.words)];
    all += (all.empty() ? "" : "|") + in_quotes(place.name);
  }
  std::string text;
  for (const auto& [what, of] : labels) text += "    " + of + ") " + what + " ;;\n";
  return text;
}

std::vector<std::string> deeper_commands(const std::vector<CompletedCommand>& commands) {
  std::vector<std::string> lines;
  for (const CompletedCommand& command : commands)
    for (const CompletedWord& below : command.commands)
      lines.push_back(in_quotes(command.path + " " + below.word));
  return lines;
}

std::vector<std::string> options_with_value(const std::vector<CompletedCommand>& commands) {
  std::vector<std::string> lines;
  for (const CompletedCommand& command : commands)
    for (const CompletedValue& option : command.options)
      for (const std::string& name : option.names)
        if (option.takes_value) lines.push_back(in_quotes(command.path + " " + name));
  return lines;
}

std::string joined(const std::vector<std::string>& parts, const std::string& between) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : between) + part;
  return text;
}

/// Of bash and zsh: goes over the words before the one that is written. `at` becomes the command's path, `n`
/// the number of positional arguments, `skip` the option whose value is written.
std::string walk(const std::vector<CompletedCommand>& commands) {
  return "    [[ $word == = ]] && continue\n"
         "    if [[ -n $skip ]]; then skip=; continue; fi\n"
         "    case \"$at $word\" in\n"
         "    " +
         joined(deeper_commands(commands), "|") +
         ") at=\"$at/$word\"; n=0; continue ;;\n"
         "    " +
         joined(options_with_value(commands), "|") +
         ") skip=$word; continue ;;\n"
         "    esac\n"
         "    [[ $word == -* ]] || n=$((n + 1))\n";
}

std::vector<Place> places_of_arguments(const std::vector<CompletedCommand>& commands) {
  std::vector<Place> places = value_places(commands);
  for (Place& place : command_places(commands)) places.push_back(std::move(place));
  return places;
}

}  // namespace

std::string bash_completion(const std::vector<CompletedCommand>& commands) {
  const Says words = [](const std::vector<CompletedWord>& all) {
    std::vector<std::string> names;
    for (const CompletedWord& one : all) names.push_back(one.word);
    return "words=" + in_quotes(spaced(names));
  };
  return "# Completion of moelab for bash, by `moelab completion bash`. Source it, or install it as\n"
         "# share/bash-completion/completions/moelab.\n"
         "_moelab() {\n"
         "  local cur=${COMP_WORDS[COMP_CWORD]} at= skip= word words= i\n"
         "  local -i n=0\n"
         "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
         "    word=${COMP_WORDS[i]}\n" +
         walk(commands) +
         "  done\n"
         "  [[ $cur == = ]] && cur=\n"
         "  if [[ -z $skip && $cur == -* ]]; then\n"
         "    case $at in\n" +
         cases(option_places(commands), words) +
         "    esac\n"
         "  else\n"
         "    case \"$at ${skip:-$n}\" in\n" +
         cases(places_of_arguments(commands), words) +
         "    esac\n"
         "  fi\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
         "}\n"
         "complete -o bashdefault -o default -F _moelab moelab\n";
}

std::string zsh_completion(const std::vector<CompletedCommand>& commands) {
  const Says words = [](const std::vector<CompletedWord>& all) {
    std::vector<std::string> entries;
    for (const CompletedWord& one : all)
      entries.push_back(in_quotes(one.help.empty() ? one.word : one.word + ":" + short_help(one.help)));
    return "known=(" + spaced(entries) + ")";
  };
  return "#compdef moelab\n"
         "# Completion of moelab for zsh, by `moelab completion zsh`. Install it as "
         "share/zsh/site-functions/_moelab.\n"
         "_moelab() {\n"
         "  local cur=${words[CURRENT]} at= skip= word i\n"
         "  local -i n=0\n"
         "  local -a known\n"
         "  for ((i = 2; i < CURRENT; ++i)); do\n"
         "    word=${words[i]}\n" +
         walk(commands) +
         "  done\n"
         "  if [[ -z $skip && $cur == -* ]]; then\n"
         "    case $at in\n" +
         cases(option_places(commands), words) +
         "    esac\n"
         "    _describe option known\n"
         "    return\n"
         "  fi\n"
         "  case \"$at ${skip:-$n}\" in\n" +
         cases(places_of_arguments(commands), words) +
         "  esac\n"
         "  ((${#known})) && _describe word known || _files\n"
         "}\n"
         "if [[ ${funcstack[1]} == _moelab ]]; then\n"
         "  _moelab \"$@\"\n"
         "else\n"
         "  compdef _moelab moelab\n"
         "fi\n";
}

namespace {

std::string fish_quotes(const std::string& text) {
  return in_quotes(text, "\\'");
}

std::string fish_walk(const std::vector<CompletedCommand>& commands) {
  return "# Prints the command that stands on the line, and the number of positional arguments behind it.\n"
         "function __moelab_at\n"
         "  set -l at ''\n"
         "  set -l skip ''\n"
         "  set -l n 0\n"
         "  for word in (commandline -opc)[2..-1]\n"
         "    if test -n \"$skip\"\n"
         "      set skip ''\n"
         "      continue\n"
         "    end\n"
         "    switch \"$at $word\"\n"
         "      case " +
         joined(deeper_commands(commands), " ") +
         "\n"
         "        set at \"$at/$word\"\n"
         "        set n 0\n"
         "        continue\n"
         "      case " +
         joined(options_with_value(commands), " ") +
         "\n"
         "        set skip $word\n"
         "        continue\n"
         "    end\n"
         "    string match -q -- '-*' $word; or set n (math $n + 1)\n"
         "  end\n"
         "  echo \"$at $n\"\n"
         "end\n";
}

std::string fish_option(const std::string& path, const CompletedValue& option) {
  std::string line =
      "complete -c moelab -n " + fish_quotes("string match -q -- \"" + path + " *\" (__moelab_at)");
  for (const std::string& name : option.names)
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (!option.values.empty())
    line += " -x -a " + fish_quotes(spaced(option.values));
  else if (option.takes_value)
    line += " -r";
  return line + " -d " + fish_quotes(short_help(option.help)) + "\n";
}

}  // namespace

std::string fish_completion(const std::vector<CompletedCommand>& commands) {
  std::string text =
      "# Completion of moelab for fish, by `moelab completion fish`. Install it as\n"
      "# share/fish/vendor_completions.d/moelab.fish.\n" +
      fish_walk(commands);
  const auto at = [](const std::string& place) {
    return "complete -c moelab -n " + fish_quotes("test (__moelab_at) = \"" + place + "\"");
  };
  for (const CompletedCommand& command : commands) {
    for (const CompletedWord& below : command.commands)
      text += at(command.path + " 0") + " -f -a " + below.word + " -d " +
              fish_quotes(short_help(below.help)) + "\n";
    for (std::size_t i = 0; i < command.positionals.size(); ++i)
      if (const std::vector<std::string>& values = command.positionals[i].values; !values.empty())
        text += at(command.path + " " + std::to_string(i)) + " -a " + fish_quotes(spaced(values)) + "\n";
    for (const CompletedValue& option : command.options) text += fish_option(command.path, option);
  }
  return text;
}

}  // namespace moelab::cli
