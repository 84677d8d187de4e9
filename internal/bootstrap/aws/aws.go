// Package aws puts the files of roles into AWS Secrets Manager, and makes the users of ElastiCache for Redis.
// What is there already and the same is left alone.
package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/elasticache"
	cachetypes "github.com/aws/aws-sdk-go-v2/service/elasticache/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"
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
}

// User is a user of ElastiCache in a group of the same id.
type User struct {
	ID, Name, Access string
	Passwords        []string // one or two, the one in the file first
}

// Publish makes or changes what differs, and returns the ARN of the secret. A new password is accepted before
// it is in the secret.
func Publish(ctx context.Context, r Role, report func(string)) (arn string, err error) {
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("%s in %s: %w; what was made stays: mend this and run again", r.Secret, r.Region, err)
	}
	content, err := json.Marshal(r.Files)
	if err != nil {
		return "", err
	}
	if len(content) > maxSecret {
		return fail(fmt.Errorf("%d bytes, and Secrets Manager takes %d: there are too many regions for one secret", len(content), maxSecret))
	}
	c, err := config.LoadDefaultConfig(ctx, config.WithRegion(r.Region))
	if err != nil {
		return fail(err)
	}
	secrets := secretsmanager.NewFromConfig(c)
	there, err := secrets.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &r.Secret})
	var missing *types.ResourceNotFoundException
	if err != nil && !errors.As(err, &missing) {
		return fail(err)
	}
	isNew := err != nil
	if r.Redis != nil {
		var before map[string]string
		if !isNew {
			_ = json.Unmarshal([]byte(aws.ToString(there.SecretString)), &before) // else the password is set again
		}
		u := users{elasticache.NewFromConfig(c), *r.Redis, report}
		if err := u.ensure(ctx, before["redis-password"] == r.Files["redis-password"]); err != nil {
			return fail(fmt.Errorf("user %s of ElastiCache: %w", r.Redis.ID, err))
		}
	}
	text := string(content)
	switch {
	case isNew:
		made, err := secrets.CreateSecret(ctx, &secretsmanager.CreateSecretInput{Name: &r.Secret, SecretString: &text})
		if err != nil {
			return fail(err)
		}
		report(fmt.Sprintf("secret %s in %s: made", r.Secret, r.Region))
		return aws.ToString(made.ARN), nil
	case aws.ToString(there.SecretString) != text:
		if _, err := secrets.PutSecretValue(ctx, &secretsmanager.PutSecretValueInput{SecretId: &r.Secret, SecretString: &text}); err != nil {
			return fail(err)
		}
		report(fmt.Sprintf("secret %s in %s: changed", r.Secret, r.Region))
	}
	return aws.ToString(there.ARN), nil
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
		if err := u.active(ctx); err != nil { // a change that is under way refuses another one
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
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(askEvery):
		}
	}
}
