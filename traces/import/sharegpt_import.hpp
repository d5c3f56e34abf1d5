// Conversations of ShareGPT as a request log.
#pragma once

#include <filesystem>
#include <vector>

#include "traces/import/input_stream.hpp"
#include "traces/requests.hpp"

namespace moelab {

/// What such a file does not say: tokens, and when requests come.
struct ShareGptImport {
  /// Measured on 3,000 conversations, 22,127 messages of ShareGPT_V3_unfiltered_cleaned_split.json: 4.38 by
  /// the tokenizer of Qwen3.5, 3.88 by that of GPT-2. By Qwen3.5's the length that 4.4 gives a message is off
  /// by 13 %, median, and by a third or more for one in ten: code and what is not English have fewer.
  double characters_per_token = 4.4;
  double conversations_per_s = 1;  // begin, one after another, evenly
  double turn_gap_s = 60;          // from one of its requests to the next
};

struct ShareGptRequests {
  std::vector<RequestRecord> requests;
  std::uint64_t conversations = 0;  // that have some
  std::uint64_t skipped = 0;  // requests without an answer's or a prompt's text, where they are left out
};

/// Reads a list of `{id, conversations: [{from, value}, ...]}` (other keys are passed over), such as
/// ShareGPT_V3_unfiltered_cleaned_split.json
/// (https://huggingface.co/datasets/anon8231489123/ShareGPT_Vicuna_unfiltered). `from` is human, user, system
/// or tool, or one that answers: gpt, chatgpt, assistant, bing, bard. Each answer is a request, whose prompt
/// is all that was said before; what it shares with the one before it is that one's prompt and answer.
/// Messages of one side in a row are one; an answer with nothing before it, as a conversation that was cut in
/// parts begins, is a part of the next prompt. A message is max(1, characters / characters_per_token,
/// rounded) tokens long, without text 0. Throws InputError with file, line and column.
ShareGptRequests import_sharegpt(const std::filesystem::path& input, const ShareGptImport& how,
                                 bool skip_failed, const Progress& progress);

}  // namespace moelab
