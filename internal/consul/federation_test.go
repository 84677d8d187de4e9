package consul

import (
	"testing"

	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/proc"
)

// A region watches the aggregators in another datacenter. It keeps what it has while that does
// not answer, is cut off or is gone, and follows it again afterwards.
func TestWatchAnotherDatacenter(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs in make test-long")
	}
	const service = "weir-global"
	dir := proc.LogDir(t)
	primary := consultest.StartDatacenter(t, consultest.Config{Dir: dir, Name: "dc1"})
	second := consultest.StartDatacenter(t, consultest.Config{Dir: dir, Name: "dc2", Primary: primary})
	there, _ := newAgent(t, primary.Servers[0].Addr)
	here, log := newAgent(t, second.Servers[0].Addr)
	l, own := new(list), new(list)
	run(t, here.Watch("aggregators", Which{Service: service, Datacenter: "dc1"}, l.set))
	run(t, here.Watch("replicas", Which{Service: service}, own.set))
	l.await(t, "")
	first := startReplica(t, there, service, "127.0.0.1", 8080)
	l.await(t, "127.0.0.1:8080")
	first.Update(t.Context()) // after that the agent remembers over its end that the check passes

	primary.Servers[0].Kill()
	log.await(t, "aggregators", "away")
	primary.Servers[0].Start()
	log.await(t, "aggregators", "back")
	more := startReplica(t, there, service, "127.0.0.1", 8081)
	l.await(t, "127.0.0.1:8080 127.0.0.1:8081")

	primary.Servers[0].Pause() // what is sent there stays unanswered
	startReplica(t, here, service, "127.0.0.1", 8082)
	own.await(t, "127.0.0.1:8082")
	primary.Servers[0].Resume()
	more.stop()
	l.await(t, "127.0.0.1:8080")
	for _, call := range l.all()[1:] {
		if call == "" {
			t.Errorf("the watch lost what it had: %q", l.all())
		}
	}
}
