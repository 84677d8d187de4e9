// Package client is the aggregator as a store: the replicas of a region call it, over the QuotaService.
//
// The files in the order in which an ask passes through them:
//
//	client.go   Acquire: the asks of a caller wait for their grants
//	gather.go   asks of many callers gather, and travel together
//	call.go     one call: its message, its answer
//	aggregator.go the addresses of the aggregator, and whether it answers
//
// A call is made at most once: whatever fails is Unavailable. Between a replica and the aggregator are
// tens of milliseconds, so a lease cache belongs in front of this store. The protocol bounds it: the
// aggregator counts units, so asks for the slots of a Concurrency limit are Unavailable. It
// does not get a count that came with a request (Policy.Brought), so the rule's own count decides.
package client
