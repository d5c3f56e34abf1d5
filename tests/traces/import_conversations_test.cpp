// Request logs of conversations: ShareGPT's texts, logs with hashes of blocks, ServeGen's requests.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tests/random_runs.hpp"
#include "tests/traces/import_files.hpp"
#include "traces/import/request_import.hpp"

namespace moelab::import_conversations_test {

using namespace moelab::test;
using Catch::Matchers::Contains;
using Records = std::vector<RequestRecord>;

namespace {

ImportedRequests import(const std::string& text, RequestImport how) {
  const ScratchFolder folder;
  write_bytes(folder / "in", text);
  return import_requests(folder / "in", how, {});
}

/// Four characters a token, one conversation a second, turns 10 s apart.
RequestImport sharegpt(bool skip_failed = false) {
  RequestImport how;
  how.kind = RequestLogKind::sharegpt;
  how.sharegpt = {.characters_per_token = 4, .conversations_per_s = 1, .turn_gap_s = 10};
  how.skip_failed = skip_failed;
  return how;
}

struct Message {
  std::string from, text;
};
using Conversation = std::vector<Message>;

std::string json_of(const std::vector<Conversation>& conversations) {
  std::string text = "[";
  for (const Conversation& conversation : conversations) {
    text += std::string(text.size() > 1 ? "," : "") + "\n {\"id\": \"a_0\", \"conversations\": [";
    const char* between = "";
    for (const Message& message : conversation) {
      text +=
          std::string(between) + "{\"from\": \"" + message.from + "\", \"value\": \"" + message.text + "\"}";
      between = ", ";
    }
    text += "]}";
  }
  return text + "\n]\n";
}

std::string refusal(const std::string& text, bool skip_failed = false) {
  return error_of([&] { import(text, sharegpt(skip_failed)); });
}

}  // namespace

TEST_CASE("sharegpt: each answer is a request, whose prompt is all that was said before") {
  // 8 characters are 2 tokens, 20 are 5, 4 are 1. The second conversation begins 1 s later; its turns share
  // nothing with the first's. A log is in order of arrival: 0, 1, 10, 11, 20 s.
  const ImportedRequests made = import(json_of({{{"human", "12345678"},
                                                 {"gpt", "12345678901234567890"},
                                                 {"human", "1234"},
                                                 {"gpt", "12345678"},
                                                 {"human", "1234"},
                                                 {"gpt", "1234"},
                                                 {"human", "no answer"}},
                                                {{"system", "1234"},
                                                 {"user", "12345678"},
                                                 {"assistant", "1234"},
                                                 {"human", "1234"},
                                                 {"bing", "1234"}}}),
                                       sharegpt());
  CHECK(made.conversations == 2);
  CHECK(made.requests ==
        Records{{0, 2, 5}, {1, 3, 1}, {10, 8, 2, 7, 0}, {11, 5, 1, 4, 1}, {20, 11, 1, 10, 2}});
}

TEST_CASE("sharegpt: characters are counted, not bytes or escapes") {
  // Four characters each: two of them of 3 bytes; an escape, and a pair of escapes that is one character.
  const std::string text =
      "[{\"conversations\": [{\"from\": \"human\", \"value\": \"ab\\u4f60\xE5\xA5\xBD\"}, "
      "{\"from\": \"gpt\", \"value\": \"a\\nb\\ud83d\\ude00\"}]}]";
  CHECK(import(text, sharegpt()).requests == Records{{0, 1, 1}});
}

TEST_CASE("sharegpt: a conversation that was cut in parts begins with an answer, which is a prompt then") {
  const std::string cut =
      json_of({{{"gpt", "12345678"}, {"gpt", "1234"}, {"human", "1234"}, {"gpt", "1234"}, {"gpt", "1234"}}});
  CHECK(import(cut, sharegpt()).requests == Records{{0, 4, 2}});
  // No request: no answer, or nothing at all. Such a conversation takes no time either.
  const ImportedRequests none =
      import(json_of({{}, {{"gpt", "1234"}}, {{"human", "1234"}}, {{"human", "1234"}, {"gpt", "1234"}}}),
             sharegpt());
  CHECK(none.requests == Records{{0, 1, 1}});
  CHECK(none.conversations == 1);
}

TEST_CASE("sharegpt: a request without text fails, and is left out where that is asked") {
  const std::string empty = json_of({{{"human", "1234"}, {"gpt", ""}, {"human", "1234"}, {"gpt", "1234"}},
                                     {{"human", ""}, {"gpt", "1234"}}});
  CHECK_THAT(refusal(empty), Contains("in:2:") && Contains("an answer without text; --skip-failed"));
  const ImportedRequests kept = import(empty, sharegpt(true));
  CHECK(kept.requests == Records{{0, 2, 1}});
  CHECK(kept.skipped == 2);
}

TEST_CASE("sharegpt: keys that mean nothing here are passed over, whatever they hold") {
  const std::string text =
      "[{\"id\": 7, \"tags\": [{\"from\": [1, {}]}], \"conversations\": [{\"from\": \"human\", \"x\": "
      "{\"value\": "
      "3}, \"value\": \"1234\"}, {\"value\": \"1234\", \"from\": \"gpt\", \"markdown\": null}], \"y\": "
      "false}]";
  CHECK(import(text, sharegpt()).requests == Records{{0, 1, 1}});
}

TEST_CASE("sharegpt: what is wrong is said with its line and what was found") {
  CHECK_THAT(refusal("{\"conversations\": []}"), Contains("in:1:") && Contains("an object where a list of "
                                                                               "conversations is due"));
  CHECK_THAT(refusal("[\n 7]"), Contains("in:2:") && Contains("a number where a conversation"));
  CHECK_THAT(refusal("[{\"id\": \"a\"}]"), Contains("a conversation without 'conversations'"));
  CHECK_THAT(refusal("[{\"conversations\": 3}]"), Contains("a number where the list of a conversation's"));
  CHECK_THAT(refusal("[{\"conversations\": [\"hello\"]}]"), Contains("a text where a message"));
  CHECK_THAT(refusal("[{\"conversations\": [{\"from\": \"human\"}]}]"),
             Contains("a message without 'value'"));
  CHECK_THAT(refusal("[{\"conversations\": [{\"value\": \"a\"}]}]"), Contains("a message without 'from'"));
  CHECK_THAT(refusal("[{\"conversations\": [{\"from\": \"human\",\n\"value\": 3}]}]"),
             Contains("in:2:") && Contains("a number where a message's text is due"));
  CHECK_THAT(refusal("[{\"conversations\": [{\"from\": \"humen\", \"value\": \"a\"}]}]"),
             Contains("a message from 'humen' (did you mean 'human'?)"));
  CHECK_THAT(refusal("[{\"conversations\": [{\"from\": \"human\", \"value\": \"a"), Contains("not JSON"));
  const std::string long_text =
      "[{\"conversations\": [{\"from\": \"human\", \"value\": \"\xff" + std::string(5000, 'a');
  const std::string of_long_text = refusal(long_text);
  CHECK_THAT(of_long_text, Contains("not JSON: ") && !Contains("\xff"));
  CHECK(of_long_text.size() < 400);
  CHECK_THAT(refusal("[{\"x\": 1e999}]"), Contains("not JSON: number overflow parsing '1e999'"));
  CHECK_THAT(refusal(""), Contains("not JSON"));
  CHECK_THAT(refusal("[]"), Contains("has no requests"));
  CHECK_THAT(refusal(std::string(100, '[')), Contains("in:1:"));
  CHECK_THAT(refusal("[{\"x\": " + std::string(100, '[')), Contains("nested deeper than 64 levels"));
}

TEST_CASE("sharegpt: a name that comes twice is refused, and nothing joined") {
  const std::string turns =
      "[{\"from\": \"human\", \"value\": \"abcd\"}, {\"from\": \"gpt\", \"value\": \"efgh\"}]";
  CHECK_THAT(refusal("[{\"conversations\": " + turns + "},\n {\"conversations\": " + turns +
                     ",\n  \"conversations\": " + turns + "}]"),
             Contains("in:3:") && Contains("the name 'conversations' comes twice in a conversation"));
  CHECK_THAT(refusal("[{\"conversations\": [{\"from\": \"human\", \"value\": \"a\",\n\"value\": \"b\"}]}]"),
             Contains("in:2:") && Contains("the name 'value' comes twice in a message"));
  CHECK_THAT(refusal("[{\"conversations\": [{\"from\": \"human\", \"from\": \"gpt\"}]}]"),
             Contains("the name 'from' comes twice in a message"));
}

TEST_CASE("sharegpt: a text that does not end is refused before it fills the memory", "[long]") {
  CHECK_THAT(refusal("[{\"conversations\": [{\"from\": \"human\", \"value\": \"" +
                     std::string((std::size_t{64} << 20) + 100, 'a')),
             Contains("a text of more than 64 MiB"));
}

/// Straight from the definition, a conversation at a time.
Records naive_requests(const std::vector<Conversation>& conversations, const ShareGptImport& how) {
  struct Made {
    RequestRecord record;
    std::size_t conversation = 0, turn = 0;
  };
  std::vector<Made> all;
  std::size_t begun = 0;
  for (const Conversation& conversation : conversations) {
    std::size_t first = 0;
    while (first < conversation.size() && conversation[first].from == "gpt") ++first;
    const auto tokens = [&](std::size_t from, std::size_t to) {
      double sum = 0;
      for (std::size_t i = from; i < to; ++i)
        sum += std::max(
            1.0, std::round(static_cast<double>(conversation[i].text.size()) / how.characters_per_token));
      return static_cast<std::uint32_t>(sum);
    };
    std::size_t turn = 0;
    for (std::size_t i = first; i < conversation.size(); ++i) {
      if (conversation[i].from != "gpt") continue;
      std::size_t end = i;
      while (end < conversation.size() && conversation[end].from == "gpt") ++end;
      all.push_back(
          {{static_cast<double>(begun) / how.conversations_per_s + static_cast<double>(turn) * how.turn_gap_s,
            tokens(0, i), tokens(i, end)},
           begun,
           turn});
      ++turn;
      i = end - 1;
    }
    begun += turn > 0 ? 1 : 0;
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Made& a, const Made& b) { return a.record.arrival_s < b.record.arrival_s; });
  Records records;
  for (const Made& made : all) {
    RequestRecord record = made.record;
    for (std::size_t before = 0; before < records.size() && made.turn > 0; ++before)
      if (all[before].conversation == made.conversation && all[before].turn + 1 == made.turn) {
        record.shared_with = static_cast<std::uint32_t>(before);
        record.shared_tokens = records[before].prompt_tokens + records[before].output_tokens;
      }
    records.push_back(record);
  }
  return records;
}

TEST_CASE("sharegpt: random conversations become what a naive program makes of them") {
  Random random(11);
  for (int run = 0; run < random_runs(2000); ++run) {
    RequestImport how = sharegpt();
    how.sharegpt.characters_per_token = 0.5 + static_cast<double>(random.below(80)) / 8;
    how.sharegpt.conversations_per_s = static_cast<double>(1 + random.below(4));
    how.sharegpt.turn_gap_s = static_cast<double>(random.below(5));
    std::vector<Conversation> conversations(1 + random.below(6));
    for (Conversation& conversation : conversations)
      for (std::uint64_t i = random.below(8); i > 0; --i)
        conversation.push_back(
            {random.below(2) == 0 ? "gpt" : "human", std::string(1 + random.below(30), 'a')});
    const Records due = naive_requests(conversations, how.sharegpt);
    if (due.empty()) continue;
    const Records made = import(json_of(conversations), how).requests;
    REQUIRE(made == due);
    for (std::size_t i = 0; i < made.size(); ++i)
      REQUIRE(sharing_problem(made[i], std::span(made).first(i)).empty());
  }
}

TEST_CASE("bailian: blocks of 16 tokens, seconds") {
  RequestImport how;
  how.kind = RequestLogKind::bailian;
  CHECK(import("{\"chat_id\": 1, \"parent_chat_id\": -1, \"timestamp\": 0.25, \"input_length\": 40, "
               "\"output_length\": 3, \"type\": \"text\", \"turn\": 1, \"hash_ids\": [4, 5, 6]}\n"
               "{\"chat_id\": 2, \"parent_chat_id\": 1, \"timestamp\": 61.114, \"input_length\": 60, "
               "\"output_length\": 7, \"type\": \"search\", \"turn\": 2, \"hash_ids\": [4, 5, 9, 10]}\n",
               how)
            .requests == Records{{0.25, 40, 3}, {61.114, 60, 7, 32, 0}});
}

TEST_CASE("servegen: the fields of its requests, whatever stands beside them") {
  RequestImport how;
  how.kind = RequestLogKind::servegen;
  CHECK(import("request_id,timestamp,input_tokens,output_tokens,reason_ratio\n0,0.5,156,1167,0.5\n"
               "1,2.25,62,847,0.25\n",
               how)
            .requests == Records{{0.5, 156, 1167}, {2.25, 62, 847}});
  CHECK_THAT(error_of([&] { import("timestamp,text_tokens,output_tokens\n0,1,2\n", how); }),
             Contains("in:1") && Contains("input_tokens"));
}

}  // namespace moelab::import_conversations_test
