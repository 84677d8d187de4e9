package consultest

import "github.com/weirlimit/weir/test/kit/fatal"

// KV is all that the key-value store has, by key.
func (a *Agent) KV() map[string]string {
	a.t.Helper()
	pairs, _, err := a.API(a.Token).KV().List("", nil)
	fatal.If(a.t, err)
	all := map[string]string{}
	for _, p := range pairs {
		all[p.Key] = string(p.Value)
	}
	return all
}
