package cluster

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/proc"
)

// rules have a window of a day, which begins with the first request: none ends within the test.
const rules = `
rules:
  - { name: hundred, match: { path: { prefix: /hundred } }, key: [path], limit: 100/1d, algorithm: fixed_window, align: first_request,
      timeout: 1s, on_failure: { action: deny, status: 503 } }
  - { name: all, match: { path: { prefix: /all } }, key: [path], limit: 1000000/1d, timeout: 1s, on_failure: { action: deny, status: 503 } }
`

// The chart does in a cluster what docs/kubernetes.md says, by the commands of that page: from the installation to the removal.
func TestChart(t *testing.T) {
	o := newOperator(t)
	step := func(name string, do func()) {
		began := time.Now()
		do()
		proc.Figure(o.t, "cluster: %s: %.0f s", name, time.Since(began).Seconds())
	}
	step("install the region with its Valkey", o.install)
	var pop string
	step("install a PoP", func() { pop = o.installPoP() })
	step("hold the documented limit", func() { o.documented(pop) })
	step("enforce the policies", o.policies)
	step("roll out under load", func() { o.rollout(pop) })
	step("fail an upgrade, go back, and upgrade", func() { o.upgrades(pop) })
	step("remove the release", o.uninstall)
}

// install follows the steps of a region. The level restricted is there from the beginning, so that it holds for all pods.
func (o *operator) install() {
	o.run("kubectl create namespace istio-system")
	o.follow("kubectl create namespace weir")
	o.follow("kubectl label namespace weir pod-security")
	o.follow("bin/weir admin bootstrap secrets")
	proc.WriteFile(o.t, filepath.Join(o.dir, "values.yaml"), o.values())
	if out := o.follow("helm upgrade --install weir"); strings.Contains(out, "Warning") {
		o.t.Errorf("the installation warns: %s", out)
	}
	if out, err := o.try("helm install second weir-*.tgz -n weir --values values.yaml"); err == nil || !strings.Contains(out, "weir") {
		o.t.Errorf("a second release in the namespace: %v, %s", err, out)
	}
	out := o.run("bin/weir status --admin %s", o.forward("weir", "deployment/weir-regional", 8090))
	if !strings.Contains(out, "eu") {
		o.t.Errorf("weir status: %s", out)
	}
}

// installPoP follows the steps of Istio, with an Envoy in its place.
func (o *operator) installPoP() (addr string) {
	o.gateway()
	o.follow("kubectl create configmap weir-pop-sds")
	o.follow("kubectl label namespace istio-system weir/pop=true")
	o.run("sed 's#image: weir:#image: registry.example/weir:#' deploy/istio-gateway.yaml > patch.yaml")
	o.follow("kubectl patch deployment istio-ingressgateway", "deploy/istio-gateway.yaml", "patch.yaml")
	o.run("kubectl rollout status deployment/istio-ingressgateway -n istio-system --timeout 3m")
	return o.forward("istio-system", "deployment/istio-ingressgateway", 10000)
}

// documented: without rules.text, each client address has 600 requests per minute, of which a PoP admits at least 98 % while
// demand stays.
func (o *operator) documented(pop string) {
	proc.AwaitWindow(time.Minute, 20*time.Second)
	got := o.offer(pop, "/", drive.Load{Count: 1000, PerSecond: 150})
	if got.OK() < 588 || got.OK() > 600 || got.Status[ok]+got.Status[limited] != 1000 {
		o.t.Errorf("1000 requests within a minute: %v, want 588 to 600 with status 200, and else 429", got.Status)
	}
	proc.Figure(o.t, "cluster: of 1000 requests within a minute %d were admitted", got.OK())
}

// policies: of other namespaces, PoPs reach the region alone, and nobody else reaches anything.
func (o *operator) policies() {
	o.run("kubectl create namespace stranger")
	image := o.run("kubectl get statefulset weir-valkey -n weir -o jsonpath='{.spec.template.spec.containers[0].image}'")
	for _, namespace := range []string{"stranger", "istio-system"} {
		o.run("kubectl run probe -n %s --image %s --command -- sleep 3600", namespace, image)
	}
	region := o.run("kubectl get pods -n weir -l app.kubernetes.io/name=weir-regional -o jsonpath='{.items[0].status.podIP}'")
	valkey := o.run("kubectl get pods -n weir -l app.kubernetes.io/name=weir-valkey -o jsonpath='{.items[0].status.podIP}'")
	for _, c := range []struct {
		from, to, port string
		open           bool
	}{
		{"istio-system", region, "8080", true},
		{"stranger", region, "8080", false},
		{"istio-system", region, "8090", false},
		{"istio-system", valkey, "6379", false},
		{"stranger", valkey, "6379", false},
	} {
		o.run("kubectl wait pod/probe -n %s --for condition=Ready --timeout 2m", c.from)
		// What listens answers valkey-cli with something; a dropped packet has it wait.
		out := o.run("kubectl exec -n %s probe -- sh -c 'timeout 3 valkey-cli -h %s -p %s ping 2>&1; echo status $?'", c.from, c.to, c.port)
		if reached := !strings.Contains(out, "status 124") && !strings.Contains(out, "status 143") && !strings.Contains(out, "refused"); reached != c.open {
			o.t.Errorf("from %s to port %s: %s, want open: %v", c.from, c.port, out, c.open)
		}
	}
	o.run("kubectl delete namespace stranger --wait=false")
}

// upgrade is the page's command with the rules of this test, and with more arguments.
func (o *operator) upgrade(args string) (string, error) {
	return o.try("%s --set-file rules.text=rules.yaml %s", o.said("helm upgrade --install weir"), args)
}

// loaded offers a load to the PoP while something happens. All requests are admitted, but for one in a hundred that may fall
// back on busy CPUs.
func (o *operator) loaded(pop, what string, do func()) {
	o.t.Helper()
	ctx, stop := context.WithCancel(o.t.Context())
	defer stop()
	results := make(chan *drive.Result, 1)
	go func() {
		r, _ := drive.Run(ctx, drive.Load{Addrs: []string{pop}, Request: drive.Get("/all"), Conns: 4, PerSecond: 100,
			Until: time.Now().Add(time.Hour)}) // if do does not end
		results <- r
	}()
	do()
	stop()
	got := <-results
	proc.Figure(o.t, "cluster: %s: %d requests, %v by status", what, got.OK(), got.Status)
	if got.OK()*100 < got.Sent()*99 || got.Other(ok, unavailable) > 0 || got.Sent() == 0 {
		o.t.Errorf("%s: %v, %d without an answer: %v", what, got.Status, got.Failed, got.FirstError)
	}
}

// rollout changes rules and restarts all replicas: a limit holds over it, and no request fails.
func (o *operator) rollout(pop string) {
	proc.WriteFile(o.t, filepath.Join(o.dir, "rules.yaml"), rules)
	if out, err := o.upgrade("--set region.args={--redis-timeout=250ms}"); err != nil { // as docs/redis.md has it for shared CPUs
		o.t.Fatalf("%v: %s", err, out)
	}
	restart := "kubectl rollout restart deployment/weir-regional -n weir && kubectl rollout status deployment/weir-regional -n weir --timeout 3m"
	o.run("%s", restart) // to read the rules now, and not when the kubelet renews their volume
	proc.Await(o.t, 0, "the PoP has the rules", func() string {
		if o.offer(pop, "/hundred/first", drive.Load{Count: 101}).Status[limited] > 0 {
			return ""
		}
		return "no limit yet"
	})
	if got := o.offer(pop, "/hundred/a", drive.Load{Count: 60}); got.OK() != 60 {
		o.t.Errorf("60 requests of 100: %v", got.Status)
	}
	o.loaded(pop, "restart all replicas", func() {
		o.run("%s", restart)
	})
	got := o.offer(pop, "/hundred/a", drive.Load{Count: 60})
	if got.OK() < 38 || got.OK() > 40 || got.Other(ok, limited) > 0 {
		o.t.Errorf("60 requests of 40 that were left: %v, want 38 to 40 with status 200, and else 429", got.Status)
	}
}

// upgrades: with an image that does not exist an upgrade fails and harms nobody. A rollback and a correct upgrade succeed.
func (o *operator) upgrades(pop string) {
	o.loaded(pop, "fail an upgrade", func() {
		if out, err := o.upgrade("--reuse-values --set image.tag=0.0.9 --timeout 15s"); err == nil {
			o.t.Errorf("an upgrade to an image that does not exist succeeded: %s", out)
		}
	})
	const pods = "kubectl get pods -n weir -l app.kubernetes.io/name=weir-regional -o jsonpath='{.items[*].spec.containers[*].resources.requests.memory}'"
	o.follow("helm rollback weir")
	o.await("256Mi 256Mi 256Mi", pods)
	if out, err := o.upgrade("--reuse-values --set region.resources.requests.memory=260Mi"); err != nil {
		o.t.Fatalf("the correct upgrade: %v: %s", err, out)
	}
	o.await("260Mi 260Mi 260Mi", pods)
}

// uninstall leaves what the page says: volumes and Secrets, until their namespace goes.
func (o *operator) uninstall() {
	o.follow("helm uninstall weir")
	const listed = `kubectl api-resources --verbs=list --namespaced -o name | grep -vE '^(events|endpoints$)' | paste -sd, | xargs kubectl get -n weir -o name |
		sed -E '/^(configmap\/kube-root-ca.crt|serviceaccount\/default|persistentvolumeclaim\/data-weir-valkey-[0-5]|secret\/weir-.*)$/d'`
	o.await("", listed)
	o.follow("kubectl delete namespace weir")
	o.await("", "kubectl get namespace weir -o name --ignore-not-found")
}
