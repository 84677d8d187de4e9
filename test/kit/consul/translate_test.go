package consul

import (
	"testing"

	"github.com/weirlimit/weir/test/kit/proc"
)

// Of two instances the one that is named has another address, and nothing else of it changes.
func TestTranslate(t *testing.T) {
	a := Start(t, proc.LogDir(t))
	for id, address := range map[string]string{"one": "127.0.0.2", "two": "127.0.0.3"} {
		a.mustCall("PUT", "/v1/agent/service/register", map[string]any{"ID": id, "Name": "some", "Address": address, "Port": 1000, "Meta": map[string]string{"version": id}}, nil)
	}
	abroad := *a
	abroad.Addr = a.Translate(map[string]string{"127.0.0.2:1000": "127.0.0.1:2000"})
	all, err := abroad.Replicas("some")
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v: %v", all, err)
	}
	for _, r := range all {
		address, port := "127.0.0.3", 1000
		if r.ID == "one" {
			address, port = "127.0.0.1", 2000
		}
		if r.Address != address || r.Port != port || r.Meta["version"] != r.ID {
			t.Errorf("%+v, want %s:%d", r, address, port)
		}
	}
	if err := abroad.read("/v1/health/service/some?dc=mars", nil); err == nil {
		t.Error("an error is not passed on")
	}
}
