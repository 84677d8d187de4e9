package telemetry

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/version"
)

func TestLogger(t *testing.T) {
	for format, want := range map[string]string{"json": `"msg":"hello","rule":"login"`, "text": `msg=hello rule=login`} {
		var out strings.Builder
		log := NewLogger(&out, format, "warn")
		log.Info("quiet")
		log.Warn("hello", "rule", "login")
		if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "quiet") {
			t.Errorf("%s: %s", format, out.String())
		}
	}
}

func TestRegistry(t *testing.T) {
	r := NewRegistry("test")
	r.Counter("a_total", "A.").Inc()
	r.Counters("b_total", "B.", "rule").WithLabelValues("login").Add(2)
	r.CounterFunc("c_total", "C.", func() float64 { return 3 })
	r.Gauge("d", "D.").Set(4)
	r.Gauges("e", "E.", "version").WithLabelValues("v").Set(1)
	r.GaugeFunc("f", "F.", func() float64 { return 5 })
	r.Histogram("g", "G.", Doubling(1, 3)).Observe(3)
	r.Histograms("h", "H.", UsualBounds(), "method").WithLabelValues("m").Observe(.01)
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, line := range []string{
		"a_total 1", `b_total{rule="login"} 2`, "c_total 3", "d 4", `e{version="v"} 1`, "f 5",
		`g_bucket{le="2"} 0`, `g_bucket{le="4"} 1`, "g_count 1", `h_bucket{method="m",le="0.01"} 1`, `h_bucket{method="m",le="0.005"} 0`, "go_goroutines",
		fmt.Sprintf(`weir_build_info{go=%q,program="test",version=%q} 1`, runtime.Version(), version.Version),
	} {
		if !strings.Contains(w.Body.String(), "\n"+line) {
			t.Errorf("no %s", line)
		}
	}
}
