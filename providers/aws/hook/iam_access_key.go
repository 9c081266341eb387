package hook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
)

// accessKeys handles AWS::IAM::AccessKey. The identifier is USER|KEY: requests need both.
//
// IAM has no token for CreateAccessKey, and returns the secret once. If the answer is lost, the user has a key with an
// unknown secret. It can be found, because a user has at most two keys, but not told from one that another client has
// created in the meantime: Create then asks a user, and deletes nothing.
type accessKeys struct{}

// Identifier is empty: IAM assigns keys.
func (accessKeys) Identifier(map[string]any) string { return "" }

func user(properties map[string]any) (string, error) {
	if name := text(properties, "UserName"); name != "" {
		return name, nil
	}
	return "", errors.New("spec.forProvider.UserName is required: name the user of the access key")
}

func (a accessKeys) List(ctx context.Context, config aws.Config, model map[string]any) ([]string, error) {
	name, err := user(model)
	if err != nil {
		return nil, err
	}
	keys, err := a.keys(ctx, config, name)
	var out []string
	for _, key := range keys {
		out = append(out, name+"|"+aws.ToString(key.AccessKeyId))
	}
	return out, err
}

// keys returns the keys of a user; none if the user does not exist. There are never more than a page.
func (accessKeys) keys(ctx context.Context, config aws.Config, name string) ([]types.AccessKeyMetadata, error) {
	found, err := iam.NewFromConfig(config).ListAccessKeys(ctx, &iam.ListAccessKeysInput{UserName: &name})
	if hasCode(err, "NoSuchEntity") {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return found.AccessKeyMetadata, nil
}

func (a accessKeys) Create(ctx context.Context, config aws.Config, desired map[string]any, earlier []string) (Created, error) {
	name, err := user(desired)
	if err != nil {
		return Created{}, err
	}
	now, err := a.List(ctx, config, desired)
	if err != nil {
		return Created{}, err
	}
	if since := slices.DeleteFunc(now, func(id string) bool { return slices.Contains(earlier, id) }); len(since) > 0 {
		_, key, _ := strings.Cut(since[0], "|")
		return Created{}, &LostError{Candidates: since,
			Message: fmt.Sprintf("the access key %s of user %s was created since this creation was decided: by it, if its answer was lost, or by another client. "+
				"Its secret cannot be read. If nothing uses the key, run: aws iam delete-access-key --user-name %[2]s --access-key-id %[1]s; another key is created then. "+
				"To manage the key without its secret, set the annotation crossplane.io/external-name to %[2]s|%[1]s", key, name)}
	}
	out, err := iam.NewFromConfig(config).CreateAccessKey(ctx, &iam.CreateAccessKeyInput{UserName: &name})
	if err != nil {
		return Created{}, err
	}
	if out.AccessKey == nil {
		return Created{}, errors.New("the response to CreateAccessKey has no access key")
	}
	id, secret := aws.ToString(out.AccessKey.AccessKeyId), aws.ToString(out.AccessKey.SecretAccessKey)
	return Created{
		Resource:   Resource{Identifier: name + "|" + id, Properties: accessKeyProperties(name, id, out.AccessKey.Status)},
		Connection: map[string][]byte{"accessKeyId": []byte(id), "secretAccessKey": []byte(secret)},
	}, nil
}

func accessKeyProperties(name, id string, status types.StatusType) map[string]any {
	return map[string]any{"Id": id, "UserName": name, "Status": string(status)}
}

func (a accessKeys) Read(ctx context.Context, config aws.Config, identifier string) (*Resource, error) {
	name, id, ok := strings.Cut(identifier, "|")
	if !ok {
		return nil, fmt.Errorf("%q is not the identifier of an access key: it is USER|KEY", identifier)
	}
	keys, err := a.keys(ctx, config, name)
	for _, key := range keys {
		if aws.ToString(key.AccessKeyId) == id {
			return &Resource{Identifier: identifier, Properties: accessKeyProperties(name, id, key.Status)}, nil
		}
	}
	return nil, err
}

func (accessKeys) Update(ctx context.Context, config aws.Config, identifier string, desired map[string]any) error {
	name, id, _ := strings.Cut(identifier, "|")
	status := text(desired, "Status")
	if status == "" {
		return nil
	}
	_, err := iam.NewFromConfig(config).UpdateAccessKey(ctx, &iam.UpdateAccessKeyInput{UserName: &name, AccessKeyId: &id, Status: types.StatusType(status)})
	return err
}

func (accessKeys) Delete(ctx context.Context, config aws.Config, identifier string) error {
	name, id, _ := strings.Cut(identifier, "|")
	_, err := iam.NewFromConfig(config).DeleteAccessKey(ctx, &iam.DeleteAccessKeyInput{UserName: &name, AccessKeyId: &id})
	if hasCode(err, "NoSuchEntity") {
		return nil
	}
	return err
}
