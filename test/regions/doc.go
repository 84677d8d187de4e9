// Package regions is three regions on one machine, as real processes: each has a Redis
// Cluster of three masters, a Consul, two replicas of weir-regional and two Envoys with the
// filter. They share one weir-global, which is some time away from each. Regions find it, and the
// rules, in the primary datacenter of Consul, and Envoys find their region through Consul's DNS.
//
// Scripts state what happens to this [World] and what is expected of it. A script is lines
// of text; # begins a comment.
//
//	rule NAME { FIELDS }                  a rule without a key for the path /NAME, in YAML
//	regions { REGION: WEIGHT, ... }       of static shares; without it all weigh the same
//	trip TIME                             from a region to the aggregator and back, and from us and ap
//	                                      to Consul, because the rules are in eu
//	trip REGION TIME                      the same for one region
//	two aggregators share a redis         a cluster; without it one has its counters in memory
//	begin at a multiple of TIME           of the clock: with windows of that length
//	from TIME to TIME REGION offers N/s of RULE
//	at TIME ACTION                        see below
//	expect FIGURE: BOUND                  judged when all is over
//	expect FIGURE: BOUND; fails BOUND     fails by the second bound, is "short" by the first
//
// REGION is eu, us or ap. All times count from the beginning of the script. "offers N/s of
// no rule" is for comparison. Actions are
//
//	kill the aggregator                   of two the one that has answered most
//	start the aggregator
//	cut REGION                            from the aggregator: nothing arrives, connections stay
//	cut calls of REGION, cut replies to REGION
//	heal REGION
//	kill redis of RULE in REGION          the master that has the counter of a rule
//	kill redis of the receipts in REGION  the master that has when the region received a reply
//	start redis in REGION                 all masters that were killed, empty
//	kill redis of RULE at the aggregator, start redis at the aggregator
//	apply limit LIMIT to RULE             with weir apply; another script begins with the first again
//	kill the leader of consul in REGION
//	start consul in REGION                what was killed of it
//
// A bound is "VALUE", "at most VALUE", "at least VALUE", "VALUE to VALUE" or "VALUE ±
// PERCENT". After "fails" it is "below VALUE", "above VALUE", "outside VALUE to VALUE" or
// "never". [Figures] lists the figures and their units.
//
// What a machine cannot change has one bound. What depends on the machine has two: the one that is
// promised, and what a machine that is busy reaches. The fullest window has two as well, because an answer
// that is late may count in the next window. A
// script in which a promise did not hold is played again, up to three times in all: each promise has to hold
// in one of them, and the second bound in all. What "fails never" is an aim, or for information.
package regions
