package consultest

// KV is all that the key-value store has, by key.
func (a *Agent) KV() map[string]string {
	a.t.Helper()
	var entries []struct {
		Key   string
		Value []byte
	}
	if err := a.read("/v1/kv/?recurse=true", &entries); err != nil {
		a.t.Fatalf("%v", err)
	}
	all := map[string]string{}
	for _, e := range entries {
		all[e.Key] = string(e.Value)
	}
	return all
}
