// Package reports tries public reports about other products on Weir: what went wrong there must not go wrong
// here. Each test has the number of its report, its source and the right answer. The answer is the report's, and not what
// Weir did when the test was written; where Weir differs on purpose, the test says so.
//
// This package has the reports that need no other program: 8, 9, 10, 14, 19, 20, 21, 22, 24, 25, 29 and 39.
// TestElsewhere names the tests that try the others, most of them with Envoy, Redis or Consul:
//
//	 1  the upstream sends X-RateLimit-*, too           Kong/kong#14353
//	 2  an Envoy in front retries rejections              envoyproxy/envoy#4855, #12201
//	 4  rejections that browsers cannot read as gRPC      grpc/grpc-web#205, connectrpc/connect-go#190
//	 5  rejections without CORS headers                   emissary#2030, agentgateway#926
//	 6  an early rejection of a large body                envoyproxy/envoy#13781, #2929
//	 7  spellings of a path                             coder#27273, parse-server#10501
//	11  slots of requests that end early                apache/apisix#11868, #12823, #1986
//	12  streams that stay open, and shedding            envoyproxy/envoy#42243
//	15  upgrades on a route without the filter          envoyproxy/envoy#35191
//	16  updates of the filter by ECDS                   istio#38313, envoyproxy/envoy#19628
//	17  memory after updates of a configuration         envoyproxy/envoy#27336
//	23  replicas with clocks apart                      spring-cloud-gateway#1688
//	26  bytes of a header that are not UTF-8            envoyproxy/envoy#5141
//	28  limits of requests that share a counter         envoyproxy/ratelimit#1077
//	30  descriptors that are joined                     limitador#62
//	31  READONLY behind ERR                             stormkit#533
//	32  a demoted server keeps its connections          envoyproxy/ratelimit#1191
//	33  keys that live too long                         Kong#14995
//	34  a lost reply is charged twice                   rate-limit-redis#252
//	35  commands that a server forbids to scripts       wurk#91
//	36  NOSCRIPT is taken for a dead node               apache/apisix#13579
//	37  a server of another cluster at an address       redis#6174
//	41  plugins that share the first one's store        Kong#12003
//	42  what logs and metrics show of a key             FreshRSS#7883, gofr#3460
//	43  an index of Consul that goes back               consul#2621, #5358
//	44  an end without the collector                    WaveHouse#288
//	45  an upgrade resets what an autoscaler has set    helm#7090, #12650
package reports
