package e2e

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// The recipe for tokens of a language model: Envoy reports what a request took when its response is over, and the PoP
// refuses the next request of a user who has none left, and only of that one.
func TestTokens(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	proc.AwaitWindow(time.Minute, 20*time.Second)
	const recipes = "docs/recipes/"
	rls := proc.FreeAddr(t)
	rules, _, _ := strings.Cut(shipped(t, recipes+"tokens.yaml"), "\ntests:")
	s := stack.Start(t, stack.Config{
		PoPs:         1,
		Rules:        rules,
		RegionConfig: "rls_listen: " + rls + "\ndescriptors: " + filepath.Join(proc.Root(t), recipes, "tokens-bindings.yaml") + "\n",
		Bootstrap: func(b *envoy.Bootstrap) {
			b.Lay("../"+recipes+"tokens-envoy.yaml", "port_value: 8081", "port_value: "+port(rls))
		},
		Upstream: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("x-total-tokens", "60000") }),
	})
	awaitRules(t, s)
	p := s.PoPs[0]
	ask := func(user string) int {
		return do(t, p.Addr, http.MethodPost, "/v1/chat/completions", "x-user-id", user).Status
	}
	if is := ask("ann"); is != 200 {
		t.Fatalf("the first request: %d", is)
	}
	passed := 1
	proc.Eventually(t, 10*time.Second, "a request is refused", func() bool {
		is := ask("ann")
		if is == 200 {
			passed++
		}
		return is == 429
	})
	if passed < 2 || passed > 3 { // a request may come before the report of the one before it
		t.Errorf("%d requests of 60000 tokens passed", passed)
	}
	if is := ask("bob"); is != 200 {
		t.Errorf("another user: %d", is)
	}
}
