// Package aws writes the files of roles to AWS Secrets Manager, and makes the users of ElastiCache for Redis. It does not
// change equal secrets, nor those of another deployment.
package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/elasticache"
	cachetypes "github.com/aws/aws-sdk-go-v2/service/elasticache/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"

	"github.com/weirlimit/weir/internal/repeat"
)

// maxSecret is how much Secrets Manager takes, in bytes.
const maxSecret = 65536

// Role is what one kind of machines or tasks gets.
type Role struct {
	Secret string // name
	Region string // of AWS
	// Files are the content, by name. They become one JSON object.
	Files map[string]string
	// Redis is the user whose password is the file redis-password; nil: none.
	Redis *User
	// Deploy is the command that gives tasks a changed secret; empty: machines fetch it.
	Deploy string
}

// User is a user of ElastiCache in a group of the same id.
type User struct {
	ID, Name, Access string
	Passwords        []string // one or two, the one in the file first
}

// Secret is what Secrets Manager has for a role.
type Secret struct {
	Role
	config aws.Config
	client *secretsmanager.Client
	arn    string // empty: there is none
	before string
}

// ErrForeign is that a secret is of another deployment.
var ErrForeign = errors.New("another directory of `weir admin bootstrap` made this secret, or somebody else did: " +
	"it has none of the authorities of state.json, so other programs may be in use that need it, and nothing was published")

// Find reads what is there, and changes nothing.
func Find(ctx context.Context, r Role) (*Secret, error) {
	c, err := config.LoadDefaultConfig(ctx, config.WithRegion(r.Region))
	if err != nil {
		return nil, r.failed(err)
	}
	s := &Secret{Role: r, config: c, client: secretsmanager.NewFromConfig(c)}
	there, err := s.client.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &r.Secret})
	var missing *types.ResourceNotFoundException
	switch {
	case errors.As(err, &missing):
		return s, nil
	case err != nil:
		return nil, r.failed(err)
	}
	s.arn, s.before = aws.ToString(there.ARN), aws.ToString(there.SecretString)
	if !r.owns(s.files()) {
		return nil, r.failed(fmt.Errorf("%w; to replace it, delete it before: "+
			"aws secretsmanager delete-secret --region %s --secret-id %s --force-delete-without-recovery", ErrForeign, r.Region, r.Secret))
	}
	return s, nil
}

func (r *Role) failed(err error) error { return fmt.Errorf("%s in %s: %w", r.Secret, r.Region, err) }

// owns reports whether a secret is of the same deployment: it has an authority of Consul in common. An
// authority that had expired has no other with it, and then tokens and key of gossip are the same.
func (r *Role) owns(there map[string]string) bool {
	const end = "-----END CERTIFICATE-----\n"
	for cert := range strings.SplitSeq(r.Files["consul-ca.pem"], end) {
		if cert != "" && strings.Contains(there["consul-ca.pem"], cert+end) {
			return true
		}
	}
	return there["consul.json"] == r.Files["consul.json"]
}

// files are those of the secret that is there; none if it is something else.
func (s *Secret) files() (files map[string]string) {
	_ = json.Unmarshal([]byte(s.before), &files)
	return files
}

// Publish makes or changes what differs, and returns the ARN. A new password is accepted before it is in the secret.
func (s *Secret) Publish(ctx context.Context, report func(string)) (arn string, err error) {
	content, err := json.Marshal(s.Files)
	if err != nil {
		return "", s.failed(err)
	}
	if len(content) > maxSecret {
		return "", s.failed(fmt.Errorf("%d bytes, and Secrets Manager takes %d: there are too many regions for one secret", len(content), maxSecret))
	}
	if s.Redis != nil {
		u := users{elasticache.NewFromConfig(s.config), *s.Redis, report}
		if err := u.ensure(ctx, s.files()["redis-password"] == s.Files["redis-password"]); err != nil {
			return "", s.failed(fmt.Errorf("user %s of ElastiCache: %w", s.Redis.ID, err))
		}
	}
	text := string(content)
	switch {
	case s.arn == "":
		made, err := s.client.CreateSecret(ctx, &secretsmanager.CreateSecretInput{Name: &s.Secret, SecretString: &text})
		if err != nil {
			return "", s.failed(err)
		}
		report(fmt.Sprintf("secret %s in %s: made", s.Secret, s.Region))
		return aws.ToString(made.ARN), nil
	case s.before != text:
		if _, err := s.client.PutSecretValue(ctx, &secretsmanager.PutSecretValueInput{SecretId: &s.Secret, SecretString: &text}); err != nil {
			return "", s.failed(err)
		}
		then := "machines fetch it within the hour"
		if s.Deploy != "" {
			then = "tasks get it with " + s.Deploy
		}
		report(fmt.Sprintf("secret %s in %s: changed; %s", s.Secret, s.Region, then))
	}
	return s.arn, nil
}

// users makes a user and its group.
type users struct {
	*elasticache.Client
	User
	report func(string)
}

// How often the state of a user is asked for, and for how long at most.
const (
	askEvery = time.Second
	askFor   = 5 * time.Minute
)

// ensure makes the user and its group. Passwords cannot be read: same reports that the user has them.
func (u *users) ensure(ctx context.Context, same bool) error {
	engine := aws.String("valkey")
	var noUser *cachetypes.UserNotFoundFault
	switch _, err := u.status(ctx); {
	case errors.As(err, &noUser):
		if _, err := u.CreateUser(ctx, &elasticache.CreateUserInput{
			UserId: &u.ID, UserName: &u.Name, Engine: engine, AccessString: &u.Access, Passwords: u.Passwords,
		}); err != nil {
			return err
		}
		u.report("user " + u.ID + " of ElastiCache: made")
	case err != nil:
		return err
	case !same:
		if err := u.active(ctx); err != nil { // a change that is under way rejects another one
			return err
		}
		if _, err := u.ModifyUser(ctx, &elasticache.ModifyUserInput{UserId: &u.ID, AccessString: &u.Access, Passwords: u.Passwords}); err != nil {
			return err
		}
		u.report("user " + u.ID + " of ElastiCache: has the new password, and the one before")
	}
	if err := u.active(ctx); err != nil {
		return err
	}
	groups, err := u.DescribeUserGroups(ctx, &elasticache.DescribeUserGroupsInput{UserGroupId: &u.ID})
	var noGroup *cachetypes.UserGroupNotFoundFault
	switch {
	case errors.As(err, &noGroup):
		if _, err = u.CreateUserGroup(ctx, &elasticache.CreateUserGroupInput{UserGroupId: &u.ID, Engine: engine, UserIds: []string{u.ID}}); err == nil {
			u.report("user group " + u.ID + " of ElastiCache: made")
		}
	case err == nil && len(groups.UserGroups) == 1 && !slices.Contains(groups.UserGroups[0].UserIds, u.ID):
		_, err = u.ModifyUserGroup(ctx, &elasticache.ModifyUserGroupInput{UserGroupId: &u.ID, UserIdsToAdd: []string{u.ID}})
	}
	return err
}

func (u *users) status(ctx context.Context) (string, error) {
	found, err := u.DescribeUsers(ctx, &elasticache.DescribeUsersInput{UserId: &u.ID})
	if err != nil {
		return "", err
	}
	if len(found.Users) == 0 {
		return "", &cachetypes.UserNotFoundFault{}
	}
	return aws.ToString(found.Users[0].Status), nil
}

// active waits until the user has what it was given.
func (u *users) active(ctx context.Context) error {
	for start := time.Now(); ; {
		status, err := u.status(ctx)
		switch {
		case err != nil || status == "active":
			return err
		case time.Since(start) > askFor:
			return fmt.Errorf("it is %s for %v; look at it in ElastiCache's console", status, askFor)
		}
		if !repeat.Sleep(ctx, askEvery) {
			return ctx.Err()
		}
	}
}
