package pods

import (
	"archive/tar"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/version"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

const (
	// named is the label of all that is made in the engine, and what its names begin with. sweep.sh has it, too.
	named = "weir-test-pods"
	// tools is an image with a shell, to fill volumes and to look into them: the one of the chart's Valkey.
	tools = "valkey/valkey:8.1.4"
)

// network has the addresses of pods: they are chosen before, because environments have them.
var network = cmp.Or(os.Getenv("WEIR_NET"), "172.30") + ".77."

// engine runs pods, with the ConfigMaps and Secrets that they mount by their names.
type engine struct {
	t       *testing.T
	mounted map[string]map[string]string
	made    int // containers and volumes
}

// docker runs a command and returns what it prints.
func docker(t *testing.T, in io.Reader, args ...string) string {
	t.Helper()
	cmd := exec.Command("docker", args...) // without the test's context: it also removes
	cmd.Stdin = in
	return strings.TrimSpace(proc.Run(t, cmd))
}

// load has the engine load an image of the release, under the name of the test. An engine may take no layout: beside
// the same blobs, those of this machine's architecture, it gets the list that `docker save` makes.
func load(t *testing.T, image string) {
	t.Helper()
	layout, dir := proc.Released(t, image+"_VERSION_oci.tar"), t.TempDir()
	proc.Run(t, exec.CommandContext(t.Context(), "tar", "-xf", layout, "-C", dir))
	type descriptor struct {
		Digest   string
		Platform struct{ Architecture string }
	}
	blob := func(d descriptor) string { return "blobs/" + strings.Replace(d.Digest, ":", "/", 1) }
	var index, images struct{ Manifests []descriptor }
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	read := func(name string, into any) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err := errors.Join(err, json.Unmarshal(text, into)); err != nil {
			t.Fatalf("%s of %s: %v", name, layout, err)
		}
	}
	read("index.json", &index)
	read(blob(index.Manifests[0]), &images)
	i := slices.IndexFunc(images.Manifests, func(d descriptor) bool { return d.Platform.Architecture == runtime.GOARCH })
	if i < 0 {
		t.Fatalf("%s has no image for %s", layout, runtime.GOARCH)
	}
	read(blob(images.Manifests[i]), &manifest)
	var layers []string
	for _, l := range manifest.Layers {
		layers = append(layers, blob(l))
	}
	list, err := json.Marshal([]any{map[string]any{"Config": blob(manifest.Config), "Layers": layers, "RepoTags": []string{named + "/" + image + ":" + strings.TrimPrefix(version.Version, "v")}}})
	fatal.If(t, err)
	proc.WriteFile(t, filepath.Join(dir, "manifest.json"), string(list))
	archive, err := exec.CommandContext(t.Context(), "tar", append([]string{"-c", "-C", dir, "manifest.json", blob(manifest.Config)}, layers...)...).Output()
	fatal.If(t, err)
	t.Log(docker(t, bytes.NewReader(archive), "load", "--quiet"))
}

// create makes a container of a pod, with its host name, address and other names on the network. Nothing is added to
// what the pod has, and its ports are published on this machine, where the kubelet and the callers are.
func (e *engine) create(p pod, c container, host string, address int, aliases ...string) (name string) {
	e.t.Helper()
	ip, s := fmt.Sprint(network, address), p.SecurityContext
	if strings.Contains(strings.Join(append(c.Args, c.Command...), " "), "$(") {
		e.t.Fatalf("%s has variables in its arguments, which an engine does not replace: %q", c.Name, c.Args)
	}
	e.made++
	name = fmt.Sprintf("%s-%s-%d", named, host, e.made)
	argv := []string{"create", "--label", named, "--name", name, "--hostname", host, "--network", named, "--ip", ip,
		"--user", fmt.Sprintf("%d:%d", cmp.Or(c.SecurityContext.RunAsUser, s.RunAsUser), cmp.Or(c.SecurityContext.RunAsGroup, s.RunAsGroup))}
	when := func(is bool, flags ...string) {
		if is {
			argv = append(argv, flags...)
		}
	}
	for _, alias := range aliases {
		when(true, "--network-alias", alias)
	}
	when(s.FSGroup != 0, "--group-add", fmt.Sprint(s.FSGroup))
	when(p.TerminationGracePeriodSeconds != 0, "--stop-timeout", fmt.Sprint(p.TerminationGracePeriodSeconds))
	when(c.WorkingDir != "", "--workdir", c.WorkingDir)
	when(c.SecurityContext.ReadOnlyRootFilesystem, "--read-only")
	when(c.SecurityContext.AllowPrivilegeEscalation != nil && !*c.SecurityContext.AllowPrivilegeEscalation, "--security-opt", "no-new-privileges")
	for _, capability := range c.SecurityContext.Capabilities.Drop {
		when(true, "--cap-drop", capability)
	}
	memory := c.Resources.Limits["memory"]
	when(memory != "", "--memory", strings.TrimSuffix(memory, "i"))
	for _, v := range c.Env {
		if v.ValueFrom.FieldRef.FieldPath == "status.podIP" {
			v.Value = ip
		}
		when(true, "--env", v.Name+"="+v.Value)
	}
	for _, port := range c.Ports {
		when(true, "--publish", fmt.Sprint("127.0.0.1::", port.ContainerPort))
	}
	argv = append(argv, e.mounts(p, c)...)
	when(len(c.Command) > 0, "--entrypoint", slices.Concat(c.Command, []string{""})[0])
	argv = append(append(argv, c.Image), slices.Concat(c.Command[min(1, len(c.Command)):], c.Args)...)
	docker(e.t, nil, argv...)
	return name
}

// mounts are the flags by which a container has its volumes. It makes these.
func (e *engine) mounts(p pod, c container) (flags []string) {
	e.t.Helper()
	for _, m := range c.VolumeMounts {
		v, group := volume{Name: m.Name}, p.SecurityContext.FSGroup // a claim, if the pod does not have it
		if i := slices.IndexFunc(p.Volumes, func(v volume) bool { return v.Name == m.Name }); i >= 0 {
			v = p.Volumes[i]
		}
		if v.EmptyDir != nil && v.EmptyDir.Medium == "Memory" {
			flags = append(flags, "--tmpfs", fmt.Sprintf("%s:mode=2777,gid=%d,size=%s", m.MountPath, group, strings.TrimSuffix(v.EmptyDir.SizeLimit, "i")))
			continue
		}
		mount := "type=volume,volume-nocopy,src=" + e.volume(v, group) + ",dst=" + m.MountPath
		if m.ReadOnly {
			mount += ",readonly"
		}
		flags = append(flags, "--mount", mount)
	}
	return flags
}

// volume makes one as the kubelet does: of root, and of the group of the pod, which may read what there is, and write
// unless it is a ConfigMap or a Secret. Files of these are links to what is replaced at once.
func (e *engine) volume(v volume, group int) (name string) {
	e.t.Helper()
	e.made++
	name = fmt.Sprintf("%s-%s-%d", named, v.Name, e.made)
	docker(e.t, nil, "volume", "create", "--label", named, name)
	files, mode, rights := map[string]string{}, int64(0o644), "2777"
	switch {
	case v.ConfigMap != nil:
		files = e.mounted[v.ConfigMap.Name]
	case v.Secret != nil:
		files, mode = e.mounted[v.Secret.SecretName], int64(cmp.Or(v.Secret.DefaultMode, 0o644))
	case v.EmptyDir == nil:
		rights = "2775"
	}
	if group == 0 {
		rights = "0" + rights[1:]
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		err := errors.Join(
			w.WriteHeader(&tar.Header{Name: "..1/" + file, Size: int64(len(files[file])), Mode: mode, Gid: group}),
			func() error { _, err := io.WriteString(w, files[file]); return err }(),
			w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: file, Linkname: "..data/" + file}))
		fatal.If(e.t, err)
	}
	if len(files) > 0 {
		fatal.If(e.t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "..data", Linkname: "..1"}))
	}
	fatal.If(e.t, w.Close())
	look(e.t, &b, name, 0, fmt.Sprintf("tar -x -p -f - && chown 0:%d . && chmod %s .", group, rights))
	return name
}

// look runs a command of a shell in a volume, as a user.
func look(t *testing.T, in io.Reader, volume string, user int, command string) string {
	t.Helper()
	return docker(t, in, "run", "--rm", "--interactive", "--label", named, "--network", "none", "--user", fmt.Sprint(user), "--workdir", "/v",
		"--mount", "type=volume,volume-nocopy,src="+volume+",dst=/v", "--entrypoint", "sh", tools, "-c", command)
}

// exit waits for the end of a container, and returns its status and what it said.
func exit(t *testing.T, name string) (status, said string) {
	t.Helper()
	return docker(t, nil, "wait", name), docker(t, nil, "logs", name)
}
