package observability

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
)

// dashboard is what of a dashboard of Grafana is judged.
type dashboard struct {
	UID, Title string
	Panels     []struct {
		ID          int
		Type, Title string
		Targets     []struct {
			Expr, LegendFormat string
			Datasource         struct{ UID string }
		}
	}
	Annotations struct {
		List []struct{ Name, Expr string }
	}
}

// dashboards returns those that are shipped, by file.
func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	all := map[string]dashboard{}
	for _, name := range files(t, shipped, "dashboards", "*.json") {
		var d dashboard
		if err := json.Unmarshal([]byte(read(t, shipped, "dashboards", name)), &d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = d
	}
	if len(all) < 2 {
		t.Fatalf("%d dashboards", len(all))
	}
	return all
}

// variables stand for what Grafana puts into a query.
var variables = strings.NewReplacer("$region", ".*", "$rule", ".*", "$pop", ".*", "$__rate_interval", "10s")

// exprs returns the queries of all panels, by file, panel and number, but for those of
// metrics that are elsewhere.
func exprs(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for file, d := range dashboards(t) {
		for _, a := range d.Annotations.List {
			all[file+": "+a.Name] = strings.Replace(variables.Replace(a.Expr), "> 0", ">= 0", 1) // it changes nothing here
		}
		for _, p := range d.Panels {
			for i, target := range p.Targets {
				if here(target.Expr) {
					all[fmt.Sprintf("%s: %s: %d", file, p.Title, i+1)] = variables.Replace(target.Expr)
				}
			}
		}
	}
	return all
}

// Dashboards can be provisioned as they are: each has a name of its own, and each query
// goes to the data source that the reader chooses.
func TestDashboards(t *testing.T) {
	uids := map[string]string{}
	for file, d := range dashboards(t) {
		if d.UID == "" || d.Title == "" || uids[d.UID] != "" {
			t.Errorf("%s: uid %q, title %q; %s has the same uid", file, d.UID, d.Title, uids[d.UID])
		}
		uids[d.UID] = file
		ids, titles := map[int]bool{}, map[string]bool{}
		for _, p := range d.Panels {
			if ids[p.ID] || titles[p.Title] {
				t.Errorf("%s: two panels have the id %d or the title %q", file, p.ID, p.Title)
			}
			ids[p.ID], titles[p.Title] = true, true
			if p.Type != "row" && len(p.Targets) == 0 {
				t.Errorf("%s: %s has no query", file, p.Title)
			}
			for _, target := range p.Targets {
				if target.Datasource.UID != "${datasource}" || target.LegendFormat == "" {
					t.Errorf("%s: %s: data source %q, legend %q", file, p.Title, target.Datasource.UID, target.LegendFormat)
				}
				if left := variables.Replace(target.Expr); strings.Contains(left, "$") {
					t.Errorf("%s: %s: a variable that nothing here replaces: %s", file, p.Title, left)
				}
			}
		}
	}
}

// Each query of each dashboard, and each metric of each alert, has numbers when real
// programs run under load and trouble.
func TestQueriesHaveNumbers(t *testing.T) {
	if testing.Short() {
		t.Skip("runs in make observability-test")
	}
	t.Parallel()
	w := start(t)
	w.load(t)
	w.await(t, `weir_rules_revision{job="weir-pop"} == 7`)
	w.trouble(t)
	missing := exprs(t)
	maps.Copy(missing, selectors(t))
	proc.Await(t, time.Minute, "numbers of all queries", func() string {
		var left []string
		for where, expr := range missing {
			if has, err := w.hasNumbers(expr, w.began); err != nil || !has {
				left = append(left, fmt.Sprintf("%s: no number, %v: %s", where, err, expr))
			} else {
				delete(missing, where)
			}
		}
		return strings.Join(left, "\n")
	})
	w.judgesAlerts(t)
}
