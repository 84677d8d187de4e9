package dashboard

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/browser"
)

// attack has a page of another origin do what it can: it returns the calls that it made and what it could read.
const attack = `(async () => {
	const moment = () => new Promise((go) => setTimeout(go, 500))
	const to = %q, body = JSON.stringify({ document: "rules: []\n", why: "evil" }), read = []
	const call = async (path, init) => {
		try {
			const answer = await fetch(to + path, { credentials: "include", signal: AbortSignal.timeout(1000), ...init })
			if (answer.type !== "opaque") read.push(path + " " + answer.status)
		} catch {}
	}
	for (const mode of ["no-cors", "cors"]) {
		for (const path of ["/", "/v1/rules", "/v1/status", "/v1/audit"]) await call(path, { mode })
		for (const type of ["text/plain", "application/json"]) {
			const headers = { "Content-Type": type }
			for (const path of ["/v1/rules:rollback", "/v1/keys:reset", "/v1/regions:forget"]) await call(path, { method: "POST", mode, body, headers })
			for (const path of ["/v1/rules", "/v1/overrides"]) await call(path, { method: "PUT", mode, body, headers })
		}
	}
	navigator.sendBeacon(to + "/v1/rules:rollback", body)
	for (const path of ["/v1/rules", "/v1/rules:rollback"]) {
		const form = document.body.appendChild(document.createElement("form"))
		Object.assign(form, { method: "post", enctype: "text/plain", action: to + path, target: "below" })
		Object.assign(form.appendChild(document.createElement("input")), { name: '{"revision":1,"why":"evil', value: '"}' })
		const below = document.body.appendChild(document.createElement("iframe"))
		below.name = "below"
		form.submit()
		await moment()
		below.remove()
		form.remove()
	}
	const frame = document.body.appendChild(document.createElement("iframe"))
	frame.src = to + "/"
	await moment()
	return read
})()`

// A page of another origin in the same browser, on another machine's name or on another port, changes nothing, reads nothing,
// and puts the dashboard into no frame.
func TestOtherOrigins(t *testing.T) {
	s := start(t, rules)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<title>other</title><body>other")
	}))
	t.Cleanup(other.Close)
	for _, origin := range []string{other.URL, strings.Replace(other.URL, "127.0.0.1", "localhost", 1)} {
		b := browser.Start(t, origin)
		b.Open("/")
		before := s.region.Metrics()[`weir_admin_refused_total{code="origin"}`]
		if read := browser.Eval[[]string](b, fmt.Sprintf(attack, "http://"+s.region.Admin)); len(read) > 0 {
			t.Errorf("%s reads %q", origin, read)
		}
		if refused := s.region.Metrics()[`weir_admin_refused_total{code="origin"}`] - before; refused < 10 {
			t.Errorf("%s: %v calls were refused, so few came", origin, refused)
		}
		bad := b.Bad()
		if !slices.ContainsFunc(bad, func(bad string) bool { return strings.Contains(bad, "frame-ancestors") }) {
			t.Errorf("%s: the frame was not refused: %q", origin, bad)
		}
	}
	var now struct{ Document string }
	if s.answer("/v1/rules", &now); now.Document != rules {
		t.Errorf("in force is %s", now.Document)
	}
	var audit struct{ Items []any }
	if s.answer("/v1/audit", &audit); len(audit.Items) != 1 {
		t.Errorf("somebody has changed something: %v", audit.Items)
	}
}
