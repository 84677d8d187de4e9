package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
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
	secret("weir", "weir-key-secrets", "Opaque", map[string]string{"key-secrets": files[region+"/service/key-secrets"]})
	if region == s.Home {
		tls("weir", "weir-global-tls", aggregator)
	}
	return err
}

// AWS publishes the files of all roles in the regions that are named, each in a region of AWS, and prints the
// variables of Terraform that name them. A region of AWS that fails does not keep the others from getting theirs.
func (s *State) AWS(ctx context.Context, regions map[string]string, out io.Writer, report func(string)) error {
	if regions[s.Home] == "" {
		return fmt.Errorf("--aws names no region of AWS for %s, the home; write --aws %[1]s=eu-central-1", s.Home)
	}
	for _, r := range sorted(regions) {
		if !slices.Contains(s.Regions, r) {
			return fmt.Errorf("--aws has %s, which is not among the regions %s", r, strings.Join(s.Regions, ", "))
		}
	}
	wanted, err := s.inAWS(regions)
	if err != nil {
		return err
	}
	var there []*aws.Secret
	failed := map[string]error{} // by region of AWS
	for _, role := range wanted {
		if failed[role.Region] != nil {
			continue
		}
		secret, err := aws.Find(ctx, role)
		if errors.Is(err, aws.ErrForeign) {
			return err
		}
		if failed[role.Region] = err; err == nil {
			there = append(there, secret)
		}
	}
	arns := map[string]string{}
	for _, secret := range there {
		if failed[secret.Region] == nil {
			arns[secret.Secret], failed[secret.Region] = secret.Publish(ctx, report)
		}
	}
	for _, region := range sorted(failed) {
		err = errors.Join(err, failed[region])
	}
	if err != nil {
		return fmt.Errorf("%w; what was made stays: fix this and run again, which prints Terraform's variables", err)
	}
	return s.variables(out, arns, report)
}

// inAWS are the roles of the regions that are named, and the aggregators.
func (s *State) inAWS(regions map[string]string) (all []aws.Role, err error) {
	files, err := s.Files()
	add := func(dir, region, redis, program string) {
		r := aws.Role{Secret: secretName(dir), Region: regions[region], Files: map[string]string{}}
		for path, text := range files {
			if name, found := strings.CutPrefix(path, dir+"/"); found {
				r.Files[name] = text
			}
		}
		if program != "" {
			r.Redis = &aws.User{ID: userID(redis), Name: redisUser, Access: "on " + redisRights, Passwords: s.Redis[redis].all()}
			r.Deploy = fmt.Sprintf("aws ecs update-service --region %s --cluster weir-%s-%s --service %[3]s --force-new-deployment", r.Region, region, program)
		}
		all = append(all, r)
	}
	add(aggregator, s.Home, aggregator, "weir-global")
	for _, r := range sorted(regions) {
		add(r+"/pop", r, "", "")
		add(r+"/consul", r, "", "")
		add(r+"/service", r, r, "weir-regional")
	}
	return all, err
}

// variables prints what the examples of terraform/ take.
func (s *State) variables(out io.Writer, arns map[string]string, report func(string)) error {
	secrets, groups := "", ""
	for _, r := range s.Regions {
		pop, published := arns[secretName(r+"/pop")]
		if !published {
			report(r + " was not published: --aws does not name it")
			continue
		}
		secrets += fmt.Sprintf("  %s = { pop = %q, consul = %q, service = %q }\n", r, pop, arns[secretName(r+"/consul")], arns[secretName(r+"/service")])
		groups += fmt.Sprintf("  %s = %q\n", r, userID(r))
	}
	_, err := fmt.Fprintf(out, "secrets = {\n%s  aggregator = %q\n}\nredis_user_groups = {\n%s  aggregator = %q\n}\n",
		secrets, arns[secretName(aggregator)], groups, userID(aggregator))
	return err
}

// secretName is what the secret with a directory's files is called.
func secretName(dir string) string { return "weir/" + dir }

// userID is the id of a user of ElastiCache, and of its group.
func userID(where string) string { return "weir-" + where }
