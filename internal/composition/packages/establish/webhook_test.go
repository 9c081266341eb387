package establish_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/composition/packages/establish"
)

func TestWebhooksOfAPackage(t *testing.T) {
	w := establish.Webhooks{Package: "p", Service: "service", Namespace: "packages", Port: 9443, Authorities: []byte("PEM")}
	const annotation = `annotations: {espalier.dev/authorities: AUTHORITIES}`
	for name, tc := range map[string]struct {
		reason, object, want string
		hasNone              bool
	}{
		"a configuration": {
			"its name is the package's, and the path of a webhook stays",
			"{kind: ValidatingWebhookConfiguration, metadata: {name: mine}, webhooks: [{name: a.example.org, clientConfig: {service: {name: x, namespace: y, path: /validate}, caBundle: eA==}}, {name: b.example.org}]}",
			"{kind: ValidatingWebhookConfiguration, metadata: {name: crossplane-provider-p, " + annotation + "}, webhooks: [" +
				"{name: a.example.org, clientConfig: {service: {name: service, namespace: packages, port: 9443, path: /validate}, caBundle: UEVN}}, " +
				"{name: b.example.org, clientConfig: {service: {name: service, namespace: packages, port: 9443}, caBundle: UEVN}}]}", false,
		},
		"a converted kind": {
			"the same webhooks convert it",
			"{kind: CustomResourceDefinition, metadata: {name: things}, spec: {conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {path: /convert}}}}}}",
			"{kind: CustomResourceDefinition, metadata: {name: things, " + annotation + "}, spec: {conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], " +
				"clientConfig: {service: {name: service, namespace: packages, port: 9443, path: /convert}, caBundle: UEVN}}}}}", false,
		},
		"a kind without conversion": {"it names none", "{kind: CustomResourceDefinition, spec: {conversion: {strategy: None}}}", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			o := parse(t, tc.object)
			if got := establish.HasWebhooks(o); got == tc.hasNone {
				t.Fatalf("%s: it has webhooks: %t", tc.reason, got)
			}
			if tc.hasNone {
				return
			}
			got, err := w.Complete(o)
			if err != nil {
				t.Fatal(err)
			}
			annotations := got.GetAnnotations()
			if annotations[establish.AuthoritiesAnnotation] != w.Digest() {
				t.Errorf("the annotations are %v", annotations)
			}
			annotations[establish.AuthoritiesAnnotation] = "AUTHORITIES"
			got.SetAnnotations(annotations)
			text, _ := yaml.Marshal(got.Object)
			want, _ := yaml.Marshal(parse(t, tc.want).Object)
			if diff := cmp.Diff(string(want), string(text)); diff != "" {
				t.Errorf("%s: (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestAMalformedWebhookIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"no object":        "{kind: MutatingWebhookConfiguration, webhooks: [null]}",
		"no list":          "{kind: MutatingWebhookConfiguration, webhooks: text}",
		"a client as text": "{kind: ManagedResourceDefinition, spec: {conversion: {strategy: Webhook, webhook: text}}}",
	} {
		if o, err := (establish.Webhooks{}).Complete(parse(t, text)); err == nil {
			t.Errorf("%s: got %v", name, o.Object)
		}
	}
}
