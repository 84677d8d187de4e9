// Package service is the service of a tier: it checks the wants of holders, asks an
// [engine.Store] for them, and answers.
//
//	Handler    HTTP and gRPC to messages (handler.go, message.go)
//	Service    checks a call, drops a repeated one, asks the store (service.go,
//	           exchange.go, check.go, holders.go); the slots of requests (slot_call.go)
package service
