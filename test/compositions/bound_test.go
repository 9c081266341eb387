package compositions

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func mergePatch(t *testing.T, s suite.Suite, kind schema.GroupVersionKind, namespace, name, patch string) {
	t.Helper()
	s.Patch(t, kind, namespace, name, s.Expand(patch))
}

const plainClaim = `{apiVersion: $GROUP/v1alpha1, kind: Top, metadata: {namespace: $NS, name: shop}, spec: {size: small}}`

func revisionOf(o *unstructured.Unstructured) string {
	return text(o, "spec", "compositionRevisionRef", "name")
}

// createRevision makes another revision of the nest's composition.
func createRevision(t *testing.T, s suite.Suite, top schema.GroupVersionKind) (first, latest string) {
	t.Helper()
	first = revisionOf(s.Await(t, top, s.NS, "shop", available))
	for _, part := range strings.Split(nest, "---") {
		if strings.Contains(part, "metadata: {name: $ID-top}") {
			s.Apply(t, strings.Replace(part, "metadata: {name: $ID-top}", "metadata: {name: $ID-top, labels: {a: b}}", 1))
		}
	}
	latest = revisionOf(s.Await(t, top, s.NS, "shop", func(o *unstructured.Unstructured) error {
		if revisionOf(o) == first {
			return errors.New("it hasn't followed yet")
		}
		return available(o)
	}))
	return first, latest
}

func TestAClaimIsRolledBackInOneChange(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, nest)
	top := s.Kind("Top")
	s.Apply(t, plainClaim)
	first, latest := createRevision(t, s, top)
	mergePatch(t, s, top, s.NS, "shop", `{"spec":{"compositionUpdatePolicy":"Manual","compositionRevisionRef":{"name":"`+first+`"}}}`)
	follows := func(revision string) {
		t.Helper()
		claim := s.Await(t, top, s.NS, "shop", available)
		s.Await(t, s.Kind("XTop"), "", text(claim, "spec", "resourceRef", "name"), func(o *unstructured.Unstructured) error {
			if got := revisionOf(o); got != revision {
				return fmt.Errorf("the composite is composed by %s, not %s", got, revision)
			}
			return available(o)
		})
		s.Await(t, top, s.NS, "shop", func(o *unstructured.Unstructured) error {
			if got := revisionOf(o); got != revision {
				return fmt.Errorf("the claim says %s, not %s", got, revision)
			}
			return nil
		})
	}
	follows(first)
	mergePatch(t, s, top, s.NS, "shop", `{"spec":{"compositionUpdatePolicy":"Automatic"}}`)
	follows(latest)
	for _, policy := range []string{`"Manual"`, `"Automatic"`, `null`} { // that change no revision
		mergePatch(t, s, top, s.NS, "shop", `{"spec":{"compositionUpdatePolicy":`+policy+`}}`)
		follows(latest)
	}

	// One that is made so never is anything else.
	s.Apply(t, `{apiVersion: $GROUP/v1alpha1, kind: Top, metadata: {namespace: $NS, name: other}, spec: {size: small, compositionUpdatePolicy: Manual, compositionRevisionRef: {name: `+first+`}}}`)
	claim := s.Await(t, top, s.NS, "other", available)
	xtop := s.Get(t, s.Kind("XTop"), "", text(claim, "spec", "resourceRef", "name"))
	if revisionOf(xtop) != first || revisionOf(claim) != first {
		t.Errorf("it is composed by %s, and says %s", revisionOf(xtop), revisionOf(claim))
	}
}

func TestAClaimKeepsItsCompositeIfItsReferenceIsChanged(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, nest)
	top, xtop := s.Kind("Top"), s.Kind("XTop")
	s.Apply(t, `{apiVersion: $GROUP/v1alpha1, kind: XTop, metadata: {name: $ID-given, annotations: {espalier.dev/claimable: "true"}}, spec: {size: small}}`)
	given := s.Get(t, xtop, "", s.Name("given"))
	s.Apply(t, `{apiVersion: $GROUP/v1alpha1, kind: Top, metadata: {namespace: $NS, name: shop}, spec: {size: small, resourceRef: {apiVersion: $GROUP/v1alpha1, kind: XTop, name: $ID-given}}}`)
	s.Await(t, top, s.NS, "shop", available)
	if got := s.Get(t, xtop, "", s.Name("given")); got.GetUID() != given.GetUID() || text(got, "spec", "claimRef", "name") != "shop" {
		t.Fatalf("the composite is %v", got.Object)
	}
	for _, ref := range []string{`null`, `{"apiVersion":"$GROUP/v1alpha1","kind":"XTop","name":"$ID-other"}`} {
		mergePatch(t, s, top, s.NS, "shop", `{"spec":{"resourceRef":`+ref+`}}`)
		s.Await(t, top, s.NS, "shop", func(o *unstructured.Unstructured) error {
			if got := text(o, "spec", "resourceRef", "name"); got != s.Name("given") {
				return fmt.Errorf("its composite is %q", got)
			}
			return available(o)
		})
		sleep(t, time.Second)
		if got := s.Get(t, xtop, "", s.Name("given")); got == nil || got.GetUID() != given.GetUID() || got.GetDeletionTimestamp() != nil {
			t.Fatalf("after %s its composite is %v", ref, got)
		}
	}

	// No claim gets the composite of another.
	s.Apply(t, `{apiVersion: $GROUP/v1alpha1, kind: Top, metadata: {namespace: $NS, name: thief}, spec: {size: small, resourceRef: {apiVersion: $GROUP/v1alpha1, kind: XTop, name: $ID-given}}}`)
	s.Await(t, top, s.NS, "thief", func(o *unstructured.Unstructured) error {
		return hasCondition(o, "Synced", "False", "ReconcileError", "belongs to", "shop")
	})
	s.Delete(t, top, s.NS, "thief")
	s.AwaitGone(t, top, s.NS, "thief")
	if got := s.Get(t, xtop, "", s.Name("given")); got == nil || got.GetDeletionTimestamp() != nil || text(got, "spec", "claimRef", "name") != "shop" {
		t.Errorf("its composite is %v", got)
	}
}

func TestAClaimsSecretSurvivesItsComposite(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, nest)
	top, xtop := s.Kind("Top"), s.Kind("XTop")
	put := func(name string) {
		s.Apply(t, `{apiVersion: $GROUP/v1alpha1, kind: Top, metadata: {namespace: $NS, name: `+name+`}, spec: {size: small, writeConnectionSecretToRef: {name: connection}}}`)
	}
	put("shop")
	claim := s.Await(t, top, s.NS, "shop", available)
	name := text(claim, "spec", "resourceRef", "name")
	fill := func() {
		leaf := awaitLeaf(t, s, name)
		s.Apply(t, `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: $NS, name: `+leaf.GetName()+`}, data: {address: there}}`)
	}
	fill()
	hasPassword := func(o *unstructured.Unstructured) error {
		if o == nil || text(o, "data", "password") == "" {
			return errors.New("no password yet")
		}
		return nil
	}
	secret := s.Await(t, suite.Secret, s.NS, "connection", hasPassword)
	old := s.Get(t, xtop, "", name)
	s.Delete(t, xtop, "", name)
	s.Await(t, xtop, "", name, func(o *unstructured.Unstructured) error {
		if o == nil || o.GetUID() == old.GetUID() {
			return errors.New("it isn't made anew yet")
		}
		return available(o)
	})
	s.Await(t, top, s.NS, "shop", available)
	if got := s.Get(t, suite.Secret, s.NS, "connection"); got == nil || got.GetUID() != secret.GetUID() || text(got, "data", "password") == "" {
		t.Errorf("the Secret is %v", got)
	}
	fill()

	// Another claim that names the same one does not get it.
	put("other")
	other := s.Await(t, top, s.NS, "other", available)
	leaf := awaitLeaf(t, s, text(other, "spec", "resourceRef", "name"))
	s.Apply(t, `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: $NS, name: `+leaf.GetName()+`}, data: {address: elsewhere}}`)
	s.Await(t, top, s.NS, "other", func(o *unstructured.Unstructured) error {
		return hasCondition(o, "Synced", "False", "ReconcileError", "Secret", "already exists")
	})
	if got := text(s.Get(t, suite.Secret, s.NS, "connection"), "data", "password"); got != "dGhlcmU=" {
		t.Errorf("the password is %s", got)
	}
}

func TestClaimsPropagateAndRemoveFields(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, nest)
	top, xtop := s.Kind("Top"), s.Kind("XTop")
	s.Apply(t, `{apiVersion: $GROUP/v1alpha1, kind: Top, metadata: {namespace: $NS, name: shop, labels: {team: a, tier: b}, annotations: {note: x, kubectl.kubernetes.io/last-applied-configuration: "{}"}}, spec: {size: small}}`)
	name := text(s.Await(t, top, s.NS, "shop", available), "spec", "resourceRef", "name")
	mergePatch(t, s, top, s.NS, "shop", `{"metadata":{"labels":{"team":null},"annotations":{"note":null}}}`)
	s.Await(t, xtop, "", name, func(o *unstructured.Unstructured) error {
		_, team := o.GetLabels()["team"]
		_, note := o.GetAnnotations()["note"]
		_, applied := o.GetAnnotations()["kubectl.kubernetes.io/last-applied-configuration"]
		if team || note || applied || o.GetLabels()["tier"] != "b" {
			return fmt.Errorf("it has %v, %v", o.GetLabels(), o.GetAnnotations())
		}
		return nil
	})
	mergePatch(t, s, xtop, "", name, `{"metadata":{"annotations":{"crossplane.io/external-name":"found"}}}`)
	s.Await(t, top, s.NS, "shop", func(o *unstructured.Unstructured) error {
		if got := o.GetAnnotations()["crossplane.io/external-name"]; got != "found" {
			return fmt.Errorf("the external name is %q", got)
		}
		return nil
	})
	mergePatch(t, s, xtop, "", name, `{"spec":{"size":"large","compositionUpdatePolicy":"Manual"}}`)
	s.Await(t, xtop, "", name, func(o *unstructured.Unstructured) error {
		if text(o, "spec", "size") != "small" {
			return fmt.Errorf("%v", o.Object["spec"])
		}
		return available(o)
	})
	awaitStable(t, 2*time.Second, func() string {
		return s.Get(t, top, s.NS, "shop").GetResourceVersion() + " of the claim, " + s.Get(t, xtop, "", name).GetResourceVersion() + " of the composite"
	})
}

func TestCompositesAndClaimsInheritTheRevisionSelectorOfTheirDefinition(t *testing.T) {
	s := suite.New(t)
	const definition = "connectionSecretKeys: [password]"
	labelled := strings.Replace(nest, "metadata: {name: $ID-top}", "metadata: {name: $ID-top, labels: {channel: stable}}", 1)
	s.Apply(t, strings.Replace(labelled, definition, definition+"\n  defaultCompositionRevisionSelector: {matchLabels: {channel: stable}}", 1))
	top := s.Kind("Top")
	s.Apply(t, plainClaim)
	follows := func(channel string) func(*unstructured.Unstructured) error {
		return func(o *unstructured.Unstructured) error {
			if got := text(o, "spec", "compositionRevisionSelector", "matchLabels", "channel"); got != channel {
				return fmt.Errorf("it follows %q", got)
			}
			return nil
		}
	}
	claim := s.Await(t, top, s.NS, "shop", follows("stable"))
	composite := text(claim, "spec", "resourceRef", "name")
	s.Await(t, s.Kind("XTop"), "", composite, follows("stable"))

	// A composite without a claim has the selector as well.
	s.Apply(t, `{apiVersion: $GROUP/v1alpha1, kind: XTop, metadata: {name: $ID-alone}, spec: {size: small}}`)
	s.Await(t, s.Kind("XTop"), "", s.Name("alone"), follows("stable"))

	// A claim sets another selector, and then none: then it follows the definition again.
	mergePatch(t, s, top, s.NS, "shop", `{"spec":{"compositionRevisionSelector":{"matchLabels":{"channel":"fast"}}}}`)
	s.Await(t, s.Kind("XTop"), "", composite, follows("fast"))
	mergePatch(t, s, top, s.NS, "shop", `{"spec":{"compositionRevisionSelector":null}}`)
	s.Await(t, s.Kind("XTop"), "", composite, follows("stable"))
	s.Await(t, top, s.NS, "shop", follows("stable"))
}
