package model

import (
	"reflect"
	"testing"

	"github.com/espalier-dev/espalier/providers/aws/catalog"
)

// TestSecretsThatAWSReturns is about a property that has the name of a secret and is not write-only.
func TestSecretsThatAWSReturns(t *testing.T) {
	typ, err := catalog.Get("AWS::DataSync::LocationObjectStorage")
	if err != nil {
		t.Fatal(err)
	}
	type values = map[string]any
	ref := values{"name": "s", "key": "k"}
	fromSecret := SecretRef{Name: "s", Key: "k"}
	cases := map[string]struct{ spec, want values }{
		"by its value":                    {values{"AccessKey": "plain"}, values{"AccessKey": "plain"}},
		"from a Secret":                   {values{"AccessKeySecretRef": ref}, values{"AccessKey": fromSecret}},
		"both":                            {values{"AccessKey": "plain", "AccessKeySecretRef": ref}, values{"AccessKey": "plain"}},
		"not what is no secret":           {values{"AgentArnsSecretRef": ref}, values{}},
		"not what AWS sets and is secret": {values{"LocationUriSecretRef": ref}, values{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Desired(typ, tc.spec, nil); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("want %v, got %v", tc.want, got)
			}
		})
	}
	wanted := Desired(typ, values{"AccessKeySecretRef": ref}, nil)
	if c := Compare(typ, wanted, values{"AccessKey": "what AWS returns"}); len(c.Differences) > 0 {
		t.Errorf("the value of a Secret is compared: %s", c)
	}
	if got := Chosen(typ, values{"AccessKeySecretRef": ref}, values{"AccessKey": "what AWS returns"}); len(got) > 0 {
		t.Errorf("the value is stored: %v", got)
	}
}
