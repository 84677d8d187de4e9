package settings

import (
	"strings"
	"testing"
)

// A variable that nothing reads is refused by its name, with the one that is likely meant. What Kubernetes sets for a
// Service is not.
func TestEnvironment(t *testing.T) {
	for item, want := range map[string]string{
		"WEIR_MAX_KEYS=5":        "",
		"WEIR_CONTEXT=prod":      "",
		"WEIR_LONG=1":            "",
		"weir_max_kyes=5":        "",
		"PATH=/bin":              "",
		"WEIR_MAX_KYES=5":        "environment: WEIR_MAX_KYES: no such variable; did you mean WEIR_MAX_KEYS?",
		"WEIR_MAX_KYES=":         "did you mean WEIR_MAX_KEYS?",
		"WEIR_CONTXT=prod":       "did you mean WEIR_CONTEXT?",
		"WEIR_GLOBAL_TLS_CERTS=": "did you mean WEIR_GLOBAL_TLS_CERT?",
		"WEIR_LONGER=1":          "WEIR_LONGER: no such variable; unset it",
		"WEIR_=":                 "WEIR_: no such variable; unset it",
		"WEIR_FOO#=":             "unset it",

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
		err := Environment([]string{"HOME=/", item})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", item, err, want)
		}
	}
	err := Environment([]string{"WEIR_A_B=1", "WEIR_MAX_KEYS=1", "WEIR_C_D=1"})
	if err == nil || !strings.Contains(err.Error(), "WEIR_A_B") || !strings.Contains(err.Error(), "WEIR_C_D") || strings.Contains(err.Error(), "KEYS") {
		t.Errorf("%v, want both that are unknown", err)
	}
}
