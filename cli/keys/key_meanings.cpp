// What keys are for, a line each: the key, and behind it its meaning. Which keys there are, what they take
// and what holds without them is not said here: key_table() has it from the readers.
#include <array>
#include <map>
#include <string>

#include "cli/keys/key_table.hpp"

namespace moelab::cli {
namespace {

constexpr std::string_view kOfScenarios = R"(
scenario.name what results call the scenario
scenario.question what the scenario is to answer
scenario.seed where random draws begin: the same seed draws the same requests and routing
scenario.model the model: a name (`moelab models`), a GGUF file, a Hugging Face folder or config.json, or the model itself
scenario.weights format of the weights (`moelab formats`) in the place of the model's own: one for all, or a map by part
scenario.device the machine: a name (`moelab devices`), a file, or the profile itself; or `machine`, or `cluster`
scenario.machine the machine, put together from catalogue parts (`moelab parts`), in the place of `device`
scenario.machine.gpu GPU by its catalogue name: rtx-4090-24gb; or one of your own, with the keys of part.gpus[], as a map or as the YAML file that has it
scenario.machine.gpus how many of it
scenario.machine.cpu CPU by its catalogue name: ryzen-9-7950x; or one of your own, as a GPU
scenario.machine.sockets how many of it
scenario.machine.memory kind and channels of the host's memory: ddr5-6000 x 2
scenario.machine.ram how much of it there is: 96 GiB
scenario.machine.ssd SSD by its catalogue name: pcie4-x4; or one of your own, as a GPU
scenario.cluster several servers: a name (`moelab clusters`), a file, or the profile itself, in the place of `device`
scenario.runtime what software costs (`moelab runtimes`), of systems that name none; none: what their own files say
scenario.tensor_parallel GPUs that share each layer
scenario.data_parallel GPUs of which each has requests of its own and all but the experts to itself
scenario.expert_parallel true: each of the GPUs has whole experts, not a slice of each
scenario.budget memory for weights, KV cache and expert cache; of several GPUs, of each. With `machine` it may be left out: all there is
scenario.power what the machine draws while it serves, as measured: 5.6 kW; of several `instances` each. Without it, estimated from the rated power of `machine`
scenario.price what the machine is rented for: 2.5 USD/h; or each GPU: 2.5 USD/GPU/h; of several `instances` each
scenario.systems what is compared: names (`moelab systems`), files, or systems themselves (`moelab keys system`)
scenario.policy_libraries files with policies of your own, which its systems may name (policies/README.md); their code runs as the scenario is read
scenario.overrides changes to what the scenario names: overrides.model, overrides.device, and overrides.system of every system
scenario.speculation speculative decoding, by a stated rate of acceptance
scenario.speculation.tokens drafted for each decode step of a request, which verifies them beside its own token; 0: none
scenario.speculation.acceptance how likely a drafted token is accepted, those before it in the step accepted
scenario.speculation.draft what drafts: ngram (look-up in the request's own tokens, which takes no time), or a map
scenario.speculation.draft.model a dense model (`moelab models`, or as `model`) that drafts token by token, beside the target in the GPU's memory
scenario.speculation.draft.weights format of its weights, as `weights` of the scenario has that of the target's
scenario.speculation.draft.bytes of a head (EAGLE, multi-token prediction): what it reads for a token, and keeps in the GPU's memory
scenario.speculation.draft.time what drafting a token takes, in the place of what reading those bytes would
scenario.speculation.draft.source where bytes or time are from
scenario.workload the requests
scenario.workload.batch requests that run at once; with data parallelism on each GPU
scenario.workload.requests how many requests; of a trace, how many of its first ones (0: all)
scenario.workload.prompt_tokens length of prompts: a number, the least and the most ([100, 900]), or a distribution
scenario.workload.prompt_tokens.distribution how lengths of prompts are drawn
scenario.workload.prompt_tokens.least no prompt is shorter
scenario.workload.prompt_tokens.most no prompt is longer
scenario.workload.prompt_tokens.median half of the prompts are shorter
scenario.workload.prompt_tokens.mean their mean, in the place of the median
scenario.workload.prompt_tokens.sigma standard deviation of the lengths' logarithm
scenario.workload.output_tokens length of answers, the first token included: as prompt_tokens
scenario.workload.output_tokens.distribution how lengths of answers are drawn
scenario.workload.output_tokens.least no answer is shorter
scenario.workload.output_tokens.most no answer is longer
scenario.workload.output_tokens.median half of the answers are shorter
scenario.workload.output_tokens.mean their mean, in the place of the median
scenario.workload.output_tokens.sigma standard deviation of the lengths' logarithm
scenario.workload.lengths_of a request log from which pairs of lengths are drawn, in the place of prompt_tokens and output_tokens
scenario.workload.shared_prefix tokens before each prompt that all requests have in common, such as a system prompt (found in the KV cache by batching: vllm-v1 and sglang)
scenario.workload.conversations requests that go on when they are answered: each prompt is all that was said before, and new words
scenario.workload.conversations.turns requests of a conversation, as prompt_tokens: a number, the least and the most, or a distribution
scenario.workload.conversations.turns.distribution how they are drawn
scenario.workload.conversations.turns.least no conversation has fewer
scenario.workload.conversations.turns.most no conversation has more
scenario.workload.conversations.turns.median half of the conversations have fewer
scenario.workload.conversations.turns.mean their mean, in the place of the median
scenario.workload.conversations.turns.sigma standard deviation of the numbers' logarithm
scenario.workload.conversations.think_time from an answer to the next prompt
scenario.workload.conversations.distribution of these times: all alike, or exponential with that mean
scenario.workload.conversations.most tokens of a prompt and its answer, beyond which a conversation does not go on
scenario.workload.classes kinds of requests, each with lengths of its own, which results tell apart
scenario.workload.classes[].name one word, which service levels name too
scenario.workload.classes[].share of the requests; shares add up to 1
scenario.workload.classes[].priority lower goes first; to batching: {policy: vllm-v1, scheduling: 1}
scenario.workload.prefilled true: prompts are run elsewhere, and their keys and values come with the requests
scenario.workload.arrivals_per_s requests a second; 0: all are there from the start; or a rate that rises, {from, to}
scenario.workload.arrivals_per_s.from the rate of the first requests
scenario.workload.arrivals_per_s.to the rate of the last ones
scenario.workload.arrivals_per_s.over how long the rate changes; without it, over all requests
scenario.workload.arrivals what the gaps between requests are like
scenario.workload.arrivals.process poisson: at random; gamma: more or less even than that; fixed: all alike
scenario.workload.arrivals.burstiness of gamma: how uneven gaps are; 1 is as poisson, more comes in bursts
scenario.workload.closed_loop users who send a request when the one before is answered, in the place of arrivals_per_s
scenario.workload.closed_loop.users how many users
scenario.workload.closed_loop.think_time from an answer to the user's next request
scenario.workload.closed_loop.distribution of these times: all alike, or exponential with that mean
scenario.workload.warm_up left out of the statistics at the start: a time (60 s), or a number of requests
scenario.workload.cool_down left out of the statistics at the end: a time (60 s), or a number of requests
scenario.workload.request_log a CSV file with the columns arrival_s, prompt_tokens, output_tokens, whose requests come as they were
scenario.workload.speed a log is played so many times as fast
scenario.workload.rate a log is played at so many requests a second
scenario.workload.trace recorded routing (`moelab traces`, or a file): its requests, and the experts that they used
scenario.workload.law law that routing is drawn from (`moelab laws`, or a file), in the place of the model's own; own: the model's
scenario.workload.skew of generated routing: how unevenly experts are used
scenario.workload.reuse of generated routing: share of choices that repeat the token before's
scenario.workload.drift of generated routing: how far each request has favourite experts of its own
scenario.workload.gate_decay of generated routing: how fast the gates' weights fall from the first expert on
scenario.workload.own_popularity on a cluster: how much of the use of experts is a task's own, not common to all
scenario.workload.counts on a cluster: counts of uses by domain, from which routing is drawn
scenario.workload.tasks on a cluster: kinds of requests that users bring
scenario.workload.tasks[].name what servers' users name it by
scenario.workload.tasks[].prompt_tokens length of prompts: a number, or the least and the most: [150, 250]
scenario.workload.tasks[].output_tokens length of answers, likewise
scenario.workload.tasks[].domain the domain of `counts` whose experts it uses; without it, the task's name
scenario.workload.tasks[].trace recorded requests, in the place of lengths and domain
scenario.workload.servers on a cluster: what the users of its servers ask: one entry, the same for each server; or one for each, in their order; or entries that name theirs (`server`), where a server that none names has no users
scenario.workload.servers[].server whose users these are: a server, or a group of servers
scenario.workload.servers[].requests how many requests they send
scenario.workload.servers[].arrivals_per_s requests a second; 0: all are there from the start
scenario.workload.servers[].tasks tasks and their shares: {arithmetic: 3, ascii: 1}
scenario.workload.servers[].tasks.NAME a task's share
scenario.workload.servers[].phases tasks that change, one phase after the other
scenario.workload.servers[].phases[].requests how many requests the phase has
scenario.workload.servers[].phases[].tasks tasks and their shares in it
scenario.workload.servers[].phases[].tasks.NAME a task's share
scenario.workload.servers[].history tasks and shares that the first placement is made from; without it, those of the first phase
scenario.workload.servers[].history.NAME a task's share
scenario.workload.servers[].request_log a log of when the requests come and how long they are
scenario.faults what goes wrong on a cluster, and right again
scenario.faults.events what happens when
scenario.faults.events[].at when it happens
scenario.faults.events[].event a server leaves or returns, or its network gets another bandwidth
scenario.faults.events[].server which one: a server, or a group of servers
scenario.faults.events[].bandwidth of its network interface from then on, both ways
scenario.faults.leaves_every mean time after which each server leaves, at random
scenario.faults.returns_after mean time after which it comes back
)";

constexpr std::string_view kOfSystems = R"(
system.name what results call the system
system.title what it is, for people; without it, its name
system.source paper or code that describes it
system.runtime what its software costs (`moelab runtimes`), in the place of host_overhead; a scenario's takes its place
system.weights how experts lie: whole; compressed (in planes); paged (through a window, layer by layer); placed (on servers that call each other)
system.stored how servers that load experts store them
system.codec codec of compressed planes, one of the device's
system.decoder who decompresses: threads of the CPU, or a GPU with memory of its own
system.shards chunks that each compressed plane is stored in
system.threads threads of the CPU that decompress
system.exponent_reads who reads compressed exponents: the I/O thread, or the threads that decompress them
system.page_cache true: reads go through the page cache, which memory outside the budget holds
system.fetch what is loaded of a layer. used: what its gate chose; layer: all; ahead (of a window): all until the gate has run
system.schedule the order in which what is missing is loaded and decompressed
system.schedule.policy which order (`moelab policies`)
system.cache which experts are kept, and as what
system.cache.policy which experts leave first (`moelab policies`)
system.cache.domain one cache a layer, or one for the model, of policies that work with either
system.cache.pools states that are kept. F: whole experts, C: both planes compressed, S: sign-mantissa planes, E: exponent planes
system.cache.keep_as the state in which a cache of one state keeps experts, as in pools
system.cache.experts beside a window: experts of each layer that stay in the GPU's memory
system.cache.share of servers that load: the part of the first GPU's room for experts that the cache gets
system.planning how memory is divided among the cache's pools
system.planning.policy fixed shares, or ZipMoE's planner
system.planning.step step of the grid of shares that is searched
system.planning.reads reads that it plans with: cold ones, or those from the page cache
system.planning.ranks whose counts rank the experts: all history's, or each batch's
system.planning.k experts that a layer uses: as many as the batch does, or as the model for one token
system.planning.ratios of the fixed plan: each pool's share; they add up to 1
system.planning.ratios.F share of whole experts
system.planning.ratios.C share of both planes, compressed
system.planning.ratios.S share of sign-mantissa planes
system.planning.ratios.E share of exponent planes
system.prefetch what is loaded ahead of the gates
system.prefetch.policy what is foretold, and from what (`moelab policies`)
system.prefetch.buffer experts that may be held outside the cache until they are used
system.prefetch.buffer_layers the same, in whole layers of experts
system.routing what tokens get in the place of experts that are not there
system.routing.policy the gate's own choice, or substitutes (`moelab policies`)
system.execution who computes what is missing from a GPU's memory: the GPU after a load, or the CPU; of servers, who calls and who loads
system.execution.policy who computes what (`moelab policies`); of servers: call another server, load the expert, or what is done first
system.batching which requests share a step
system.batching.policy which requests come into a step (`moelab policies`)
system.batching.max_tokens tokens that a step runs at most
system.kv the KV cache of requests that come and go
system.kv.block_tokens tokens a block
system.kv.swap_space host memory for blocks of one GPU that gave way
system.kv.policy who gives way where experts and the KV cache want the same memory
system.kv.grows true: the KV cache takes the memory that experts leave; else it stays as large as at the start
system.instances several servers that share the requests, each the scenario's machine (its GPUs, its budget)
system.instances.colocated how many that run prompts and decode; a request goes to the one with the fewest unanswered
system.instances.prefill how many that run prompts only, up to the first token (disaggregated prefill)
system.instances.decode how many that go on behind the first token, with the KV cache that is sent to them
system.instances.link what a KV cache crosses between these
system.instances.link.bandwidth of each GPU, out of an instance that runs prompts and into one that decodes; shared by what is sent at the time
system.instances.link.latency before the bytes of each request
system.instances.link.source where these are from
system.paging of weights that are paged: where experts lie that pass through a window of two layers
system.paging.backends where experts may lie: resident, a codec of the device's gpu.codecs, host, ssd
system.paging.storage which share of the experts lies where
system.paging.storage.policy how shares are chosen (`moelab policies`)
system.paging.residency how these shares change while serving
system.paging.residency.policy when experts move (`moelab policies`)
system.placement of weights that are placed: which server holds which experts
system.placement.policy how they are placed (`moelab policies`)
system.placement.copies servers that hold each expert at least; 0: servers load what none holds
system.calls_by messages between servers: one an expert, or one a GPU
system.migration experts follow their users: when they are placed anew
system.migration.every time between decisions
system.migration.horizon time in which a new placement has to save what moving the experts takes; without it, as `every`
system.migration.statistics uses that it looks at: since the last change, in a window, or decaying
system.migration.window the window, or the time after which a use counts half
system.migration.load_from where a server gets an expert from
system.migration.costs calls that say what a call costs: all since the start, or since the last change
system.migration.computing_every how often the computing part of that cost is updated; without it, a mean as of the rest
system.detection time until a server that does not answer is known to be gone; without it, a second
system.redirection requests that go to another server, where each serves alone
system.host_overhead what a framework costs on the host
system.host_overhead.per_layer before each layer
system.host_overhead.per_pass after each pass
system.host_overhead.per_call before each message to another GPU
system.host_overhead.source where these are from
)";

constexpr std::string_view kOfMachines = R"(
device.name the file's name without .yaml
device.title what it is, for people
device.sources where numbers are from; each number names one
device.sources.NAME one of them
device.sources.NAME.kind how well its numbers are known
device.sources.NAME.text paper, data sheet or measurement that has them
device.measured_on the machine that was measured: on another one, or under another kernel or driver, the profile is another machine's
device.measured_on.cpu its CPU
device.measured_on.kernel its kernel
device.measured_on.driver its GPU's driver
device.measured_on.gpu its GPU
device.measured_on.date when it was measured
device.measured_on.command the command that measured it
device.measured_on.libraries the libraries that were timed
device.memory memory of the host, which a GPU without memory of its own works in
device.memory.total all of it
device.memory.system_reserve what the operating system and other programs hold of it
device.memory.bandwidth what a GPU streams that works in it
device.memory.controller what storage, CPU and GPU move together
device.cpu the CPU
device.cpu.threads cores that can decompress
device.cpu.dispatch handing one operation to a thread or a queue
device.cpu.recover joining the two planes of a tensor on the CPU, by elements
device.cpu.experts what experts of one shape take on the CPU
device.cpu.experts[].hidden the model's hidden values
device.cpu.experts[].width the expert's intermediate values
device.cpu.experts[].matrices matrices of the expert
device.cpu.experts[].seconds time of one BF16 expert, by tokens
device.cpu.peak arithmetic of what else the CPU computes
device.cpu.bandwidth what the CPU streams from the host's memory
device.cpu.dense_launch one kernel where the CPU computes dense parts
device.cpu.sharing factor on each of n operations that the CPU does at once, from 1 on
device.cpu.slowdown_while_reading factor on what cpu.sharing is of while the SSD is being read
device.ssd the SSD that weights lie on
device.ssd.read one cold read, by its bytes
device.ssd.slowdown_while_decompressing factor on reads while decompression runs
device.ssd.readers factor on each of n reads at once, from 1 on
device.page_cache the operating system's cache of files
device.page_cache.read one read that it serves, by its bytes
device.codecs codecs that the CPU decompresses
device.codecs.NAME one of them, as systems name it
device.codecs.NAME.ratio compressed over plain size of an exponent plane
device.codecs.NAME.decompress plain bytes of one thread: a rate, or a curve by the bytes of one chunk
device.gpu the GPU; without it all runs on the CPU
device.gpu.stand_in true: the CPU plays the GPU, and gpu.memory is a part of the host's
device.gpu.peak arithmetic of dense 16-bit matrix products
device.gpu.flops_efficiency share of the peak that kernels get
device.gpu.launch one kernel's launch
device.gpu.memory memory of its own
device.gpu.reserve what driver, context and framework hold of that memory
device.gpu.bandwidth what it streams from and to its own memory
device.gpu.link the link to the host's memory
device.gpu.link.to_device one transfer from pinned host memory, by its bytes
device.gpu.link.to_host one transfer to pinned host memory, by its bytes
device.gpu.link.pageable one transfer from host memory that is not pinned, by its bytes
device.gpu.codecs codecs that the GPU decodes
device.gpu.codecs.NAME one of them, as systems name it
device.gpu.codecs.NAME.ratio stored over plain size of whole weights
device.gpu.codecs.NAME.rate plain bytes that the GPU decodes with nothing else to do
device.gpu.remap backing address space with other physical memory, by its bytes
device.gpu.node the GPUs of this kind in one machine
device.gpu.node.gpus how many there are, each with a link of its own
device.gpu.node.all_reduce summing up hidden states over some of them
device.gpu.node.all_reduce[].gpus over how many
device.gpu.node.all_reduce[].seconds time, by the bytes of one GPU
cluster.name the file's name without .yaml
cluster.title what it is, for people
cluster.sources where numbers are from; each number names one
cluster.sources.NAME one of them
cluster.sources.NAME.kind how well its numbers are known
cluster.sources.NAME.text paper, data sheet or measurement that has them
cluster.devices profiles that stand in the file itself, by name
cluster.devices.NAME one of them (`moelab keys device`)
cluster.servers the servers
cluster.servers[].name what scenarios and results call it
cluster.servers[].device its machine: a name (`moelab devices`), or a file
cluster.servers[].gpus GPUs of that kind, each with a memory and a link of its own
cluster.servers[].count so many servers that are alike: box-1, box-2, ..., together the group box
cluster.servers[].budget memory of each of its GPUs that may be used; without it, the scenario's budget
cluster.servers[].out what its network interface sends; without it, network.bandwidth
cluster.servers[].in what its network interface receives; without it, network.bandwidth
cluster.servers[].host the host of a platform file that it is; without it, the one of its name
cluster.network the network between the servers
cluster.network.topology star: a switch that never blocks; mesh: a link for each ordered pair; platform: as a SimGrid file says
cluster.network.bandwidth of a server's interface where the server does not say
cluster.network.latency of one message, one way
cluster.network.file SimGrid's platform file
)";

constexpr std::string_view kOfModels = R"(
model.name the file's name without .yaml
model.title what people call it; without it, the name
model.source where the numbers are from, and what is special
model.hidden hidden values of a token
model.vocab entries of the vocabulary
model.embedding_copies 2: the output head has weights of its own; 1: it has those of the embedding
model.extra_weights weights that the formulas leave out, as `source` says
model.weights format that the weights are published in (`moelab formats`): one for all, or a map by part
model.weights.all of the parts that are not named
model.weights.attention of attention's matrices
model.weights.dense of layers without experts
model.weights.shared of shared experts
model.weights.router of the gates
model.weights.experts of routed experts
model.weights.embedding of the embedding
model.weights.head of the output head
model.weights.group weights in a line with one scale, which no slice of tensor parallelism may cut; default: the format's
model.weights.kv of keys and values in the KV cache
model.bytes_per_weight in the place of `weights`: bytes of each weight as stored, or a map by part
model.bytes_per_weight.name what results call the format
model.layers how many layers
model.dense_first so many layers at the start have no experts
model.moe_every of layers 1, 2, 3, ... every n-th has experts
model.dense_layers further layers without experts, by number from 0
model.attention of all layers, or a list of blocks that repeats over them
model.attention[].repeat so many layers one after the other
model.attention.kind heads of keys and values, latent attention, linear attention, Mamba-2, or none
model.attention.heads heads of queries; of mamba2, of its state
model.attention.kv_heads heads of keys and values; without it, as many as of queries
model.attention.head_dim values of a head
model.attention.value_dim values of a head's value; without it, as head_dim
model.attention.nope_dim of mla: values of a head without position
model.attention.rope_dim of mla: values of a head with position
model.attention.kv_lora_rank of mla: values that are cached of keys and values, but for position
model.attention.q_lora_rank of mla: values that queries are made from; 0: all hidden values
model.attention.key_heads of linear: heads of keys and queries
model.attention.value_heads of linear: heads of values
model.attention.conv_kernel of linear and mamba2: tokens that the convolution sees
model.attention.conv_bias of mamba2: true: the convolution has a bias
model.attention.groups of mamba2: groups of heads that share its matrices B and C
model.attention.state of mamba2: values of a head's state
model.attention.bias true: the projections before attention have biases
model.attention.output_bias true: the projection behind attention has one
model.attention.qk_norm norms of queries and keys: each head's, or one over all
model.attention.output_gate true: a gate on what attention puts out
model.attention.sinks true: a sink for each head
model.attention.window tokens that attention looks back; 0: all
model.pattern a letter a layer, of `blocks`, in the place of attention, dense_first, moe_every and dense_layers
model.blocks the layers that the pattern's letters stand for
model.blocks.NAME one of them
model.blocks.NAME.feed_forward what follows attention, or stands alone
model.moe the routed experts; a model without them is dense
model.moe.experts experts of a layer
model.moe.top_k experts that a token uses
model.moe.width an expert's intermediate values
model.moe.matrices matrices of an expert: gate, up and down, or up and down
model.moe.shared_width intermediate values of all shared experts together
model.moe.shared_gate true: a gate on the shared expert
model.moe.bias true: experts have biases
model.moe.gate_bias true: the gate has a bias
model.dense the feed-forward part of layers without experts
model.dense.width its intermediate values
model.dense.matrices its matrices: gate, up and down, or up and down
model.dense.bias true: it has biases
model.encoder makes the model an encoder-decoder: what stands here is the encoder's
model.published what the model's authors say, against which a test holds the formulas
model.published.weights weights in all
model.published.active_weights weights that a token uses
model.published.source where they say it
)";

constexpr std::string_view kOfSweeps = R"(
sweep.name what stores call the sweep
sweep.question what the sweep is to answer
sweep.scenario what varies: a scenario by name, a file, or the scenario itself
sweep.systems systems that are run, by name; without it, the scenario's
sweep.set changes to the scenario for all points, as --set has them: {workload.batch: 4}
sweep.set.NAME the value of the key
sweep.axes what varies, each key with each other's values: {budget: [16 GB, 24 GB]}
sweep.axes.NAME the key's values: a list, or {linspace: {from: 1, to: 8, points: 8}}, logspace or random
sweep.zip keys that vary together, value by value: [{budget: [16 GB, 24 GB], workload.batch: [1, 2]}]
sweep.zip[].NAME the key's values, as many as the other keys of the entry have
sweep.series named groups of changes, of which each is a line in charts: {small: {budget: 16 GB}}
sweep.series.NAME what it changes, and with `system` which system it runs
sweep.repeats so many runs of each point, each with a seed of its own
sweep.limits what a point may take before it is given up
sweep.limits.time time on a clock
sweep.limits.memory memory of its process
sweep.executor what resolves time: fast (durations known at the start) or simgrid (capacities shared by SimGrid); without it fast, and simgrid where the scenario has a cluster, as `moelab run`
sweep.where only combinations for which this holds: budget > 20 GB and workload.batch < 8
)";

constexpr std::string_view kOfRuntimes = R"(
runtime.name what results call the runtime
runtime.title its name in full
runtime.based_on the runtime whose constants hold where this one says nothing: a name (`moelab runtimes`) or a file beside this one
runtime.sources where constants are from; each names one
runtime.constants what its software costs apart from the machine; all that have to be there, or those that differ from `based_on`
runtime.classes generations of GPUs (`moelab show gpus`), or what GPUs' names begin with, on which its kernels are slower or faster
runtime.classes.NAME one of them: ada, or a100 (a100-80gb, a100-40gb-pcie); what a name begins with goes before a generation; a100/mxfp4: of these with weights whose format has that in its name
runtime.classes.NAME.slowdown times `constants.slowdown`, of kernels there
runtime.gguf which GGUF files it reads, where not all
runtime.gguf.types their types, as `moelab formats` has them behind gguf-
runtime.gguf.width_multiple the width of the model's experts is a multiple of it
runtime.gguf.source which of `sources` says so
runtime.caveats faults that users met and that are open; `moelab advise` says them with what it advises
runtime.caveats[].models models that have it: those whose names begin so
runtime.caveats[].weights formats that have it: those whose names begin so; without it, all
runtime.caveats[].what what happens
runtime.caveats[].source which of `sources` says so
)";

constexpr std::string_view kOfLaws = R"(
law.format moelab-routing-law
law.version of the format
law.model whose routing it is
law.provenance from what it was fitted
law.experts experts of a layer that routing chooses from
law.top_k how many of them a token uses
law.prompt_tokens mean rows of a prompt
law.decode_tokens mean rows of an answer
law.span_tokens tokens over which each of the slowly changing terms of a logit lasts
law.known what it stands on: a recording, published figures, or a rule from the model's shape
law.points how near LRU's hit rates under it come to the model's: 0.02 is two points
law.domains subjects of requests, each with favourites of its own; absent: requests are alike
law.domains[].name one word
law.domains[].share of the requests; shares add up to 1
law.layers one for each MoE layer, an encoder's first
law.layers[].encoder true: of the encoder
law.layers[].bias popularity of the experts by rank, falling, in standard deviations of a logit's other terms
law.layers[].domain weight of the term that all requests of a domain share
law.layers[].prompt weight of the term that all tokens of a request share
law.layers[].spans weights of the terms that last `span_tokens`; what is left to 1 is new for each token
law.layers[].coupling correlation of all terms with the layer before
law.layers[].gate_gaps gap between the logarithms of two gates for a gap of 1 between their logits, by rank
law.layers[].gate_sum what the gates of the chosen experts add up to
)";

constexpr std::string_view kOfParts = R"(
part.gpus GPUs, a row each
part.cpus CPUs, a row each
part.ssds SSDs, a row each
part.byte_products of generations: how many times as fast products of 8-bit values are as those of 16 bits
part.byte_products.NAME a generation that parts name: ampere
part.byte_products.NAME.times the factor, of parts that say none of their own
part.byte_products.NAME.source data sheet or white paper that has it
part.decompress of generations of CPUs: what one core decompresses
part.decompress.NAME a generation that parts name: zen3
part.decompress.NAME.lz4hc plain bytes of exponents a second, packed by LZ4HC
part.decompress.NAME.zstd the same, packed by Zstd
part.decompress.NAME.clock clock at which it does; other CPUs of the generation then go by theirs
part.decompress.NAME.source measurement that has it
part.gpus[].cpu of a GPU that works in the host's memory: the CPU on its chip, by its catalogue name
part.gpus[].ssd_slot what an SSD of its board hangs on, which reads no faster: pcie3-x4
part.gpus[].name what `machine.gpu` calls it
part.gpus[].title its name in full
part.gpus[].alias what else it is called
part.gpus[].maker which runtimes run on it: nvidia, amd, apple, intel
part.gpus[].generation architecture, which decides products of 8-bit values
part.gpus[].memory its own, as it is sold: 24 GB are 24 GiB; absent: it works in the host's
part.gpus[].bandwidth of the memory that it works in
part.gpus[].peak dense products of 16-bit matrices
part.gpus[].byte_products the same of 8-bit values, as a multiple; absent: its generation's
part.gpus[].link what it hangs on; of those that work in the host's memory: none
part.gpus[].peer_link one way to the other GPUs of its board (NVLink), of which sums over them are made; absent: over link
part.gpus[].unified true: it works in the host's memory
part.gpus[].power of the board, as rated (TDP); what serving draws of it is estimated from it
part.gpus[].source data sheet that has the row
part.cpus[].name what `machine.cpu` calls it
part.cpus[].title its name in full
part.cpus[].alias what else it is called
part.cpus[].generation architecture, which decides products of 8-bit values
part.cpus[].cores of a socket; performance cores where there are two kinds
part.cpus[].efficiency_cores the other kind
part.cpus[].clock of all cores at work
part.cpus[].flops 32-bit operations a cycle of a core
part.cpus[].amx true: it has matrix units
part.cpus[].memory the fastest that it takes
part.cpus[].channels of a socket, 64 bits each
part.cpus[].sockets how many of it work together at most
part.cpus[].bandwidth of memory that is soldered to it
part.cpus[].power of a socket, as rated (TDP): what is drawn where it computes experts
part.cpus[].source data sheet that has the row
part.ssds[].name what `machine.ssd` calls it
part.ssds[].title its name in full
part.ssds[].read sequential reads
part.ssds[].latency one read of 4 KiB at queue depth 1
part.ssds[].source data sheet that has the row
)";

using Meanings = std::map<std::string_view, std::string_view>;

void add_lines(std::string_view text, Meanings& meanings) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n'), blank = text.find(' ');
    if (blank < end) meanings[text.substr(0, blank)] = text.substr(blank + 1, end - blank - 1);
    text.remove_prefix(end + 1);
  }
}

const Meanings& meanings() {
  static const Meanings all = [] {
    Meanings lines;
    for (const std::string_view text :
         {kOfScenarios, kOfSystems, kOfMachines, kOfModels, kOfSweeps, kOfRuntimes, kOfLaws, kOfParts})
      add_lines(text, lines);
    return lines;
  }();
  return all;
}

/// Keys that mean in one place what they mean in another: a class of requests says its lengths as a workload
/// without classes does, attention is described alike wherever it stands, and so are the parts of a model.
struct SameMeaning {
  std::string_view prefix, as;
};
constexpr std::array<SameMeaning, 10> kSameMeanings = {
    {{"scenario.workload.classes[].", "scenario.workload."},
     {"scenario.weights.", "model.weights."},
     {"scenario.speculation.draft.weights.", "model.weights."},
     {"model.bytes_per_weight.", "model.weights."},
     {"model.encoder.attention[].", "model.attention[]."},
     {"model.encoder.blocks.NAME.", "model.blocks.NAME."},
     {"model.encoder.", "model."},
     {"model.attention[].", "model.attention."},
     {"model.blocks.NAME.", "model.attention."},
     {"runtime.sources.", "device.sources."}}};

}  // namespace

std::string_view key_meaning(std::string_view path) {
  if (const auto found = meanings().find(path); found != meanings().end()) return found->second;
  for (const SameMeaning& same : kSameMeanings)
    if (path.starts_with(same.prefix))
      return key_meaning(std::string(same.as) + std::string(path.substr(same.prefix.size())));
  return "";
}

}  // namespace moelab::cli
