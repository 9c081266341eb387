package cloudcontrol

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/providers/aws/model"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// oneSecret is every Secret.
type oneSecret string

func (s oneSecret) Get(schema.GroupVersionKind, string, string) (*unstructured.Unstructured, error) {
	data := map[string]any{"password": base64.StdEncoding.EncodeToString([]byte(s))}
	return &unstructured.Unstructured{Object: map[string]any{"data": data}}, nil
}

func (oneSecret) Owner(external.Key) (*external.Owner, error) { return nil, nil }

// TestAQuotedSecretIsRemoved has AWS quote a secret in the forms in which its services do.
func TestAQuotedSecretIsRemoved(t *testing.T) {
	const secret = `correct "horse" <battery>\\&staple+/=`
	c := newClient(t, "AWS::RDS::DBInstance")
	c.objects = oneSecret(secret)
	c.creation = map[string]any{"MasterUserPassword": model.SecretRef{Name: "db", Key: "password"}}
	inJSON, err := json.Marshal(map[string]string{"p": secret})
	if err != nil {
		t.Fatal(err)
	}
	twice, err := json.Marshal(string(inJSON))
	if err != nil {
		t.Fatal(err)
	}
	for _, quoted := range []string{secret, string(inJSON), string(twice), url.QueryEscape(secret), url.PathEscape(secret)} {
		got := c.redacted("the value " + quoted + " is not valid")
		for _, part := range []string{"correct", "horse", "battery", "staple"} {
			if strings.Contains(got, part) {
				t.Errorf("got %s", got)
			}
		}
	}
}

// TestValuesOfSecretsAreNotReturned observes a resource whose key came from a Secret, and that AWS returns.
func TestValuesOfSecretsAreNotReturned(t *testing.T) {
	c := newClient(t, "AWS::DataSync::LocationObjectStorage")
	read := map[string]any{"AccessKey": "AKIA0123", "BucketName": "b"}
	if o, _ := c.observation("arn", read); string(o.Connection["AccessKey"]) != "AKIA0123" || o.AtProvider["AccessKey"] != nil {
		t.Errorf("of a value that AWS has chosen: got %v and %v", o.Connection, o.AtProvider)
	}
	c.creation = map[string]any{"AccessKey": model.SecretRef{Name: "s", Key: "k"}}
	if o, _ := c.observation("arn", read); len(o.Connection) > 0 || o.AtProvider["AccessKey"] != nil || o.AtProvider["BucketName"] != "b" {
		t.Errorf("of a value from a Secret: got %v and %v", o.Connection, o.AtProvider)
	}
}
