package compose

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/proc"
)

// prometheus is the one number that a query has for an answer; none is an error.
func prometheus(t *testing.T, query string) (float64, error) {
	t.Helper()
	body, err := page.Read(t.Context(), &client, "http://"+prometheusAddr+"/api/v1/query?query="+url.QueryEscape(query))
	if err != nil {
		return 0, err
	}
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return 0, err
	}
	if n := len(answer.Data.Result); n != 1 {
		return 0, fmt.Errorf("%s has %d answers", query, n)
	}
	return strconv.ParseFloat(fmt.Sprint(answer.Data.Result[0].Value[1]), 64)
}

// Prometheus has loaded each rule of observability/alerts, and evaluates it without an error.
func alertsLoaded(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(proc.Root(t), "observability", "alerts", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, path := range paths {
		var file struct{ Groups []struct{ Rules []any } }
		read(t, filepath.Join("observability", "alerts", filepath.Base(path)), &file)
		for _, group := range file.Groups {
			want += len(group.Rules)
		}
	}
	proc.Await(t, patience, fmt.Sprint(want, " rules are evaluated"), func() string {
		body, err := page.Read(t.Context(), &client, "http://"+prometheusAddr+"/api/v1/rules")
		if err != nil {
			return err.Error()
		}
		var answer struct {
			Data struct {
				Groups []struct {
					Rules []struct{ Name, Health, LastError string }
				}
			}
		}
		if err := json.Unmarshal(body, &answer); err != nil {
			return err.Error()
		}
		got := 0
		for _, group := range answer.Data.Groups {
			for _, r := range group.Rules {
				if r.Health != "ok" {
					return r.Name + ": " + r.Health + " " + r.LastError
				}
				got++
			}
		}
		if got != want {
			return fmt.Sprint(got, " of ", want)
		}
		return ""
	})
}
