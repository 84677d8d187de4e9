package pods

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/test/kit/fatal"
)

type resource struct {
	Kind             string
	Metadata         struct{ Name string }
	Data, StringData map[string]string
	Spec             struct {
		Replicas int
		Template struct{ Spec json.RawMessage }
	}
}

func resources(t *testing.T, text []byte) map[string]resource {
	t.Helper()
	all := map[string]resource{}
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var tree any
		if err := d.Decode(&tree); err != nil {
			if len(all) == 0 || err.Error() != "EOF" {
				t.Fatalf("%v\n%s", err, text)
			}
			return all
		}
		var r resource
		plain, err := json.Marshal(tree)
		fatal.If(t, errors.Join(err, json.Unmarshal(plain, &r)))
		name := r.Metadata.Name
		if r.Kind == "Job" { // the rest is its revision
			name = "weir-valkey-cluster"
		}
		all[r.Kind+" "+name] = r
	}
}

// pod is that of a workload. It fails where a field is unknown here: a container would have less than the pod.
func (r resource) pod(t *testing.T) (p pod) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(r.Spec.Template.Spec))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		t.Fatalf("%s %s: %v", r.Kind, r.Metadata.Name, err)
	}
	return p
}

// pod is what the kubelet reads of a pod. Fields of type any have no equal in an engine, or are its default; one that
// is not here fails the test.
type pod struct {
	ServiceAccountName, AutomountServiceAccountToken, EnableServiceLinks, TopologySpreadConstraints, RestartPolicy any

	SecurityContext               security
	TerminationGracePeriodSeconds int
	InitContainers, Containers    []container
	Volumes                       []volume
}

type security struct {
	RunAsNonRoot, ReadOnlyRootFilesystem bool
	RunAsUser, RunAsGroup, FSGroup       int
	AllowPrivilegeEscalation             *bool
	Capabilities                         struct{ Drop []string }
	SeccompProfile                       struct{ Type string }
}

type container struct {
	Name, Image, WorkingDir                     string
	Command, Args                               []string
	ImagePullPolicy                             any
	Env                                         []variable
	Ports                                       []port
	StartupProbe, ReadinessProbe, LivenessProbe probe
	Resources                                   struct{ Requests, Limits map[string]string }
	SecurityContext                             security
	VolumeMounts                                []struct {
		Name, MountPath string
		ReadOnly        bool
	}
}

type variable struct {
	Name, Value string
	ValueFrom   struct{ FieldRef struct{ FieldPath string } }
}

type port struct {
	Name          string
	ContainerPort int
}

type probe struct {
	HTTPGet                                         struct{ Path, Port string }
	TCPSocket                                       struct{ Port string }
	InitialDelaySeconds                             any // here a pod is ready when it answers
	PeriodSeconds, TimeoutSeconds, FailureThreshold int
}

type volume struct {
	Name      string
	ConfigMap *struct{ Name string }
	Secret    *struct {
		SecretName  string
		DefaultMode int
	}
	EmptyDir *struct{ Medium, SizeLimit string }
}
