package settings

import (
	"strings"
	"testing"
)

// A variable that nothing reads has a warning with its name and the one that is likely meant. What Kubernetes sets for a
// Service is not.
func TestEnvironment(t *testing.T) {
	for item, want := range map[string]string{
		"WEIR_MAX_KEYS=5":            "",
		"WEIR_CONTEXT=prod":          "",
		"WEIR_NET=10.99":             "",
		"weir_max_kyes=5":            "",
		"PATH=/bin":                  "",
		"WEIR_MAX_KYES=5":            "environment: WEIR_MAX_KYES: no such variable; did you mean WEIR_MAX_KEYS?",
		"WEIR_MAX_KYES=":             "did you mean WEIR_MAX_KEYS?",
		"WEIR_CONTXT=prod":           "did you mean WEIR_CONTEXT?",
		"WEIR_AGGREGATOR_TLS_CERTS=": "did you mean WEIR_AGGREGATOR_TLS_CERT?",
		"WEIR_NETS=1":                "WEIR_NETS: no such variable; unset it",
		"WEIR_=":                     "WEIR_: no such variable; unset it",
		"WEIR_FOO#=":                 "unset it",

		"WEIR_SERVICE_HOST=10.0.0.1":                        "",
		"WEIR_PORT=tcp://10.0.0.1:8080":                     "",
		"WEIR_REGIONAL_SERVICE_HOST=10.0.0.1":               "",
		"WEIR_REGIONAL_SERVICE_PORT=8080":                   "",
		"WEIR_REGIONAL_SERVICE_PORT_GRPC=8080":              "",
		"WEIR_REGIONAL_PORT=tcp://10.0.0.1:8080":            "",
		"WEIR_REGIONAL_PORT_8080_TCP=tcp://10.0.0.1:8080":   "",
		"WEIR_REGIONAL_PORT_8080_TCP_PROTO=tcp":             "",
		"WEIR_REGIONAL_PORT_8080_TCP_PORT=8080":             "",
		"WEIR_REGIONAL_PORT_8080_TCP_ADDR=10.0.0.1":         "",
		"WEIR_REGIONAL_NAME=/app/weir":                      "",
		"WEIR_REGIONAL_ENV_PATH=/bin":                       "",
		"WEIR_REGIONAL_PORT_8080_TCP_ADDRESS=10.0.0.1":      "unset it",
		"WEIR_LISTEN_PORT=8080":                             "WEIR_LISTEN_PORT",
		"WEIR_REGIONAL_SERVICE=weir-regional.weir.svc:8080": "WEIR_REGIONAL_SERVICE",
		"XWEIR_REGIONAL=WEIR_MAX_KYES=5":                    "",
	} {
		got := Environment([]string{"HOME=/", item})
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0], want)) {
			t.Errorf("%s: %q, want %q", item, got, want)
		}
	}
	got := Environment([]string{"WEIR_A_B=1", "WEIR_MAX_KEYS=1", "WEIR_C_D=1"})
	if len(got) != 2 || !strings.Contains(got[0], "WEIR_A_B") || !strings.Contains(got[1], "WEIR_C_D") {
		t.Errorf("%q, want both that are unknown", got)
	}
}
