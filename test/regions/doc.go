// Package regions is three regions on one machine, as real processes: each has a Redis Cluster of three
// masters, a Consul, two replicas of weir-regional and two Envoys with the filter. They share two weir-global,
// which count in a Redis Cluster of their own and are some time away from each region. All find the rules in
// the primary datacenter of Consul. Envoys find their region through Consul's DNS.
//
// Scripts state what happens to this [World] and what is expected of it, in YAML, with times from their beginning:
//
//	rules: [{ name: NAME, ... }]          each for the path /NAME; key and match are the play's
//	regions: { REGION: WEIGHT }           without it all weigh the same
//	trip: TIME                            the round trip from a region to an aggregator, and from us and ap
//	                                      to Consul, because the rules are in eu
//	align: TIME                           the script begins at a multiple of it by the clock: whole seconds
//	loads: [{ from: TIME, to: TIME, region: REGION, rate: N, rule: NAME }]   N requests per second
//	events: [{ at: TIME, do: ACTION }]    see below
//	always, expect: [{ figure: FIGURE, BOUND }]
//
// REGION is eu, us or ap. Actions are
//
//	kill an aggregator                    the one that has answered most
//	kill the aggregators
//	start the aggregators                 those that are down
//	cut REGION                            from the aggregators: nothing arrives, connections stay
//	cut calls of REGION, cut replies to REGION
//	heal REGION                           from all that was done to its link
//	kill redis of RULE in REGION          the master that has the counter of a rule
//	start redis in REGION                 all masters that were killed, empty
//	apply limit LIMIT to RULE             with weir rules apply; another play begins with the rules of its script
//	kill the leader of consul in REGION
//	start consul in REGION                the servers that were killed
//
// [Figures] lists the figures and their units; durations are in seconds. Beside a figure may stand rule, region, from and to. A bound is
// least, most, or near: [VALUE, PERCENT], which is VALUE ± PERCENT.
//
// # How a script is judged
//
// A script is played once, or up to three times. Its expectations are of two kinds:
//
//   - always: safety. It states what is admitted at most, and the bound has to hold in every play.
//   - expect: latency, fairness, and what is admitted at least. A play in which one of these bounds does not hold is
//     short. The first play has to hold all of them, or else two other plays.
//
// A play is void if a client of the test had no processor for a second: then only "always" is judged.
//
// A play begins when the aggregators, the replicas and each worker of each PoP decide by the rules of the
// script, and no others. Workers state that in their answers: the limit of a rule named rules-in-force is the
// number of the document. The key of all rules is a header that has another value in each play, so nothing
// is left of the plays before, such as leases.
//
// # Windows
//
// A window has the label of the clock, and counts the requests that were sent and answered in it; one that was
// answered later may be charged to the next. If a figure of a window is above its bound, two counts are left
// out. One is what a region may have spent in the first round trip, and 250 ms, on leases of the window before,
// as far as that window had units left. The other is what PoPs admitted by on_failure because their region
// did not answer in time: see the figure "admitted by PoPs alone".
package regions
