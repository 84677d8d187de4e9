package bootstrap

import (
	"context"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/internal/bootstrap/aws"
)

// manifest is a Secret of Kubernetes.
type manifest struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Metadata   map[string]string `yaml:"metadata"`
	Type       string            `yaml:"type"`
	StringData map[string]string `yaml:"stringData"`
}

// Kubernetes prints the Secrets of a region's cluster. That of PoPs is in the namespace of their gateway.
func (s *State) Kubernetes(out io.Writer, region, popNamespace string) error {
	files, err := s.Files()
	if err != nil {
		return err
	}
	if _, found := files[region+"/pop/cert.pem"]; !found {
		return fmt.Errorf("--kubernetes %s is not among the regions %s", region, strings.Join(s.Regions, ", "))
	}
	print := yaml.NewEncoder(out)
	secret := func(namespace, name, kind string, data map[string]string) {
		if err == nil {
			err = print.Encode(manifest{"v1", "Secret", map[string]string{"name": name, "namespace": namespace}, kind, data})
		}
	}
	tls := func(namespace, name, dir string) {
		secret(namespace, name, "kubernetes.io/tls", map[string]string{
			"tls.crt": files[dir+"/cert.pem"], "tls.key": files[dir+"/key.pem"], "ca.crt": files[dir+"/ca.pem"],
		})
	}
	tls(popNamespace, "weir-pop-tls", region+"/pop")
	tls("weir", "weir-regional-tls", region+"/service")
	secret("weir", "weir-redis", "Opaque", map[string]string{"password": s.Redis[region].Current})
	if region == s.Home {
		tls("weir", "weir-global-tls", global)
	}
	return err
}

// AWS publishes the files of all roles in regions of AWS, by the name of the region, and prints the variables of
// Terraform that name them.
func (s *State) AWS(ctx context.Context, regions map[string]string, out io.Writer, report func(string)) error {
	for _, r := range s.Regions {
		if regions[r] == "" {
			return fmt.Errorf("--aws names no region of AWS for %s; write --aws %[1]s=eu-central-1", r)
		}
	}
	for _, r := range sorted(regions) {
		if _, found := s.Redis[r]; !found || r == global {
			return fmt.Errorf("--aws has %s, which is not among the regions %s", r, strings.Join(s.Regions, ", "))
		}
	}
	files, err := s.Files()
	if err != nil {
		return err
	}
	publish := func(dir, region, redis string) (arn string, err error) {
		role := aws.Role{Secret: "weir/" + dir, Region: region, Files: map[string]string{}}
		for path, text := range files {
			if name, found := strings.CutPrefix(path, dir+"/"); found {
				role.Files[name] = text
			}
		}
		if redis != "" {
			role.Redis = &aws.User{ID: userID(redis), Name: redisUser, Access: "on " + redisRights, Passwords: s.Redis[redis].all()}
		}
		return aws.Publish(ctx, role, report)
	}
	arns, groups := map[string]string{}, map[string]string{global: userID(global)}
	if arns[global], err = publish(global, regions[s.Home], global); err != nil {
		return err
	}
	for _, r := range s.Regions {
		groups[r] = userID(r)
		for _, role := range roles {
			dir, redis := r+"/"+string(role), ""
			if role == "service" {
				redis = r
			}
			if arns[dir], err = publish(dir, regions[r], redis); err != nil {
				return err
			}
		}
	}
	return s.variables(out, arns, groups)
}

// variables prints what the examples of terraform/ take.
func (s *State) variables(out io.Writer, arns, groups map[string]string) error {
	text := "secrets = {\n"
	for _, r := range s.Regions {
		text += fmt.Sprintf("  %s = { pop = %q, consul = %q, service = %q }\n", r, arns[r+"/pop"], arns[r+"/consul"], arns[r+"/service"])
	}
	text += fmt.Sprintf("  global = %q\n}\nredis_user_groups = {\n", arns[global])
	for _, r := range sorted(groups) {
		text += fmt.Sprintf("  %s = %q\n", r, groups[r])
	}
	_, err := io.WriteString(out, text+"}\n")
	return err
}

// userID is the id of a user of ElastiCache, and of its group.
func userID(where string) string { return "weir-" + where }
