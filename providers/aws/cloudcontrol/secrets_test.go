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
