// Package regions is three regions on one machine, as real processes: each has a Redis
// Cluster of three masters, a Consul, two replicas of weir-regional and two Envoys with the
// filter. They share one weir-global, which is some time away from each. Regions find it, and the
// rules, in the primary datacenter of Consul, and Envoys find their region through Consul's DNS.
//
// Scripts state what happens to this [World] and what is expected of it. A script is lines
// of text; # begins a comment.
//
//	rule NAME { FIELDS }                  a rule without a key for the path /NAME, in YAML
//	regions { REGION: WEIGHT, ... }       without it all weigh the same
//	trip TIME                             from a region to the aggregator and back, and from us and ap
//	                                      to Consul, because the rules are in eu
//	trip REGION TIME                      the same for one region
//	two aggregators share a redis         a cluster; without it one has its counters in memory
//	begin at a multiple of TIME           of the clock: with windows of that length
//	begin with TIME left of TIME          of a window of the clock of that length, in which all is played
//	from TIME to TIME REGION offers N/s of RULE
//	at TIME ACTION                        see below
//	always FIGURE: BOUND                  judged when all is over, see below
//	expect FIGURE: BOUND
//	aim FIGURE: BOUND
//
// REGION is eu, us or ap. All times count from the beginning of the script. "offers N/s of
// no rule" is for comparison. Actions are
//
//	kill the aggregator                   of two the one that has answered most
//	start the aggregator                  those that are down
//	cut REGION                            from the aggregator: nothing arrives, connections stay
//	cut calls of REGION, cut replies to REGION
//	slow REGION to TIME                   which a call to the aggregator and its reply take
//	lose PERCENT of calls of REGION       of two lost calls one does not arrive, and one has no reply
//	heal REGION                           from all that was done to its link
//	kill redis of RULE in REGION          the master that has the counter of a rule
//	kill redis of the record in REGION    the master that has the record of the region's reserve
//	start redis in REGION                 all masters that were killed, empty
//	kill redis of RULE at the aggregator, kill all redis at the aggregator
//	start redis at the aggregator
//	apply limit LIMIT to RULE             with weir apply; another play begins with those of its script
//	apply regions { REGION: WEIGHT, ... } the same with the weights
//	kill the leader of consul in REGION
//	start consul in REGION                what was killed of it
//
// [Figures] lists the figures and their units. Behind a figure may stand, in this order, "under RULE",
// "in REGION", "from TIME", "to TIME" and "begun TIME after ACTION": of windows that begin so long after an
// action was done. A bound is "VALUE", "at most VALUE", "at least VALUE", "VALUE to VALUE" or
// "VALUE ± PERCENT".
//
// # What is judged in which plays
//
// A script is played once, or up to three times. Its expectations begin with one of three words:
//
//   - always: safety. The bound has to hold in every play, also in one that is void; a violation has no second
//     chance. What is admitted at most belongs here: "fullest window", "window that ran", and "admitted of
//     the limit" with an upper bound cannot have another word. So do what is admitted during a fault at least
//     ("admitted", "emptiest window"), for which the script derives the bound, and "5xx or no answer" where
//     on_failure makes none.
//   - expect: latency and fairness. A play in which one of these bounds does not hold is short, and does not
//     count. The first play has to be whole, or else two other plays. Figures of time, waiting and calls
//     ("recovery", "change", "use of the reserve", "slowest request", "requests slower than their timeout", "p99",
//     "waiting requests", "degraded requests", "asks of one region" and the like) cannot be safety. How near
//     to its limit and how evenly a rule admits belongs here too: "admitted of the limit" and "admitted".
//   - aim: never fails, and is printed.
//
// A play is void if a client of the test had no processor for a second. Then only what is above a bound of
// safety fails.
//
// # When a play begins
//
// A play begins when the aggregators, the replicas and each worker of each PoP decide by the rules of the
// script, and no others. Workers state that in their answers: the limit of a rule named rules-in-force is the
// number of the document. The key of all rules is a header that has another value in each play, so nothing
// is left of the plays before, such as leases.
//
// # Windows
//
// A window has the label of the clock, and counts the requests that were sent and answered in it; one that was
// answered later may be charged to the next. If a figure of a window is above its bound, what a region may have spent
// in the first trip, and 250 ms, on leases of the window before is left out, as far as that window had units left.
// So is what PoPs admitted by themselves because their region did not answer in time, by on_failure: that is counted
// apart, as "admitted by PoPs alone".
//
// A window that ran when a region was cut off has a bound of its own ("window that ran"): L + Σ s × L × t ÷ W over
// the regions that are cut off in it, with the limit L, a region's share s, the time t for which it has been cut
// off by the end of the window, and the length W. A window that begins within 3 s and a trip after that is one of these,
// since the region has renounced it. A region is cut off from the begin of the action that does it until the
// aggregator has granted it something again. Reports of plays have each window with its label, what each region was
// admitted, what is stated for it, and which regions were cut off.
package regions
