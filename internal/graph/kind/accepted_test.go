package kind_test

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph/kind"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/object"
)

func TestADefinitionIsRecordedUnlessItContainsASecret(t *testing.T) {
	cases := map[string]struct {
		template string
		noted    bool
	}{
		"A ConfigMap is noted":                     {`{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"b"}}`, true},
		"A Secret without values is":               {`{"apiVersion":"v1","kind":"Secret"}`, true},
		"A Secret that is computed is":             {`{"apiVersion":"v1","kind":"Secret","stringData":{"a":"${schema.spec.a}"}}`, true},
		"A Secret with a value is not":             {`{"apiVersion":"v1","kind":"Secret","stringData":{"a":"b"}}`, false},
		"Nor one in base64":                        {`{"apiVersion":"v1","kind":"Secret","data":{"a":"Yg=="}}`, false},
		"Nor one with a value about an expression": {`{"apiVersion":"v1","kind":"Secret","stringData":{"a":"${schema.spec.a}b${schema.spec.a}"}}`, false},
		"Nor one with a value in an expression":    {`{"apiVersion":"v1","kind":"Secret","stringData":{"a":"${\"b\"}"}}`, false},
		"Nor one with a number":                    {`{"apiVersion":"v1","kind":"Secret","stringData":{"a":1}}`, false},
		"Another group's Secret is":                {`{"apiVersion":"example.com/v1","kind":"Secret","data":{"a":"b"}}`, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
			spec := &v1alpha1.DefinitionSpec{Resources: []*v1alpha1.Resource{{ID: "x", Template: runtime.RawExtension{Raw: []byte(tc.template)}}}}
			if err := kind.RecordAccepted(c, spec); err != nil {
				t.Fatal(err)
			}
			if _, got := kind.Accepted(c); got != tc.noted {
				t.Errorf("noted: got %t", got)
			}
		})
	}
}

func TestADefinitionWithSecretDataInAVariableIsNotRecorded(t *testing.T) {
	cases := map[string]struct {
		values map[string]string
		noted  bool
	}{
		"A value that the Secret reads isn't noted": {map[string]string{"creds": `{"password":"p"}`}, false},
		"Nor one that it reads through another":     {map[string]string{"creds": `"${inner.password}"`, "inner": `{"password":"p"}`}, false},
		"One that is computed is":                   {map[string]string{"creds": `"${schema.spec.password}"`}, true},
		"One that the Secret doesn't read is":       {map[string]string{"creds": `"${schema.spec.password}"`, "other": `"p"`}, true},
		"Variables in a cycle end":                  {map[string]string{"creds": `"${inner.x}"`, "inner": `"${creds.x}"`}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
			spec := &v1alpha1.DefinitionSpec{Resources: []*v1alpha1.Resource{nil, {ID: "x", Template: runtime.RawExtension{
				Raw: []byte(`{"apiVersion":"v1","kind":"Secret","stringData":{"a":"${creds.password}"}}`),
			}}}}
			for id, value := range tc.values {
				spec.Resources = append(spec.Resources, &v1alpha1.Resource{ID: id, Value: runtime.RawExtension{Raw: []byte(value)}})
			}
			if err := kind.RecordAccepted(c, spec); err != nil {
				t.Fatal(err)
			}
			if _, got := kind.Accepted(c); got != tc.noted {
				t.Errorf("noted: got %t", got)
			}
		})
	}
}

func TestALongOwnerNameIsRecordedInFull(t *testing.T) {
	long := object.Definition{Name: strings.Repeat("long-", 20) + "x"}
	c := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Labels: crd.Labels(long, "v1")}}
	if !crd.BelongsTo(c, long) {
		t.Error("by the label alone it belongs to its definition")
	}
	c.Annotations = map[string]string{"espalier.dev/definition": long.Name}
	if owner, _ := crd.Owner(c); owner.Name != long.Name || !crd.BelongsTo(c, long) {
		t.Errorf("the owner is %q", owner.Name)
	}
	if crd.BelongsTo(c, object.Definition{Name: object.LabelValue(long.Name)}) {
		t.Error("it belongs to one that is named like the label")
	}
	c.Annotations["espalier.dev/definition"] = "theirs"
	if !crd.BelongsTo(c, long) || crd.BelongsTo(c, object.Definition{Name: "theirs"}) {
		t.Error("an annotation gives it away")
	}
}

func TestAKindThatIsAChildOfAnInstanceHasNoDefinition(t *testing.T) {
	c := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
		"kro.run/owned": "true", "kro.run/node-id": "crd", "kro.run/instance-name": "one",
	}}}
	if owner, owned := crd.Owner(c); owned {
		t.Errorf("it belongs to %v", owner)
	}
}
