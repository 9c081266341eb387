package plan_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
)

// someone is a foreign object, with the given changes.
func someone(changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	o := rendered("x")
	for _, change := range changes {
		change(o)
	}
	return o
}

func ours(o *unstructured.Unstructured) {
	o.SetLabels(map[string]string{v1alpha1.ApplySetPartOfLabel: owner.ID()})
	owner.Mark(o, inventory.Place{Node: "x"})
}

func TestObstacleIsCleared(t *testing.T) {
	name := plan.Obstacle{Need: plan.Need{Kind: configMap, Namespace: "prod", Name: "x"}}
	fields := name
	fields.Refused = &plan.RefusedApply{LiveDigest: plan.ContentDigest(someone())}
	namespace := plan.Obstacle{Need: plan.Need{Kind: plan.NamespaceKind, Name: "prod"}}
	changed := someone(func(o *unstructured.Unstructured) { o.SetAnnotations(map[string]string{"a": "b"}) })
	cases := map[string]struct {
		obstacle plan.Obstacle
		found    *unstructured.Unstructured
		synced   bool
		want     bool
	}{
		"An existing object holds its name":                                  {name, someone(), true, false},
		"A name is free once its object is gone":                             {name, nil, true, true},
		"A name isn't free while the object may exist":                       {name, nil, false, false},
		"A name is free once the object belongs to the instance":             {name, someone(ours), true, true},
		"A name isn't free while an object of the instance is being deleted": {name, someone(ours, dying), true, false},
		"A cache that has not synced doesn't free a name":                    {name, someone(ours), false, false},
		"Fields stay in conflict while the object is unchanged":              {fields, someone(), true, false},
		"A change of the object may have ended the conflict":                 {fields, changed, true, true},
		"A change in a cache that has not synced may have ended it, too":     {fields, changed, false, true},
		"An object with fields in conflict may be gone":                      {fields, nil, true, true},
		"A name isn't free while a Graph of kro's applies the object":        {name, someone(ours, ofGraph), true, false},
		"A missing namespace is an obstacle":                                 {namespace, nil, true, false},
		"An existing namespace is none":                                      {namespace, someone(), true, true},
		"A namespace that is being deleted is an obstacle":                   {namespace, someone(dying), true, false},
		"A namespace in a cache that has not synced exists":                  {namespace, someone(), false, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.obstacle.IsCleared(tc.found, tc.synced, owner); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestNameConflictProblem(t *testing.T) {
	yes := true
	deployment := func(o *unstructured.Unstructured) {
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "d", Controller: &yes}})
	}
	definition := func(o *unstructured.Unstructured) { o.SetGroupVersionKind(plan.CRDKind.WithVersion("v1")) }
	other := owner
	other.Name = "other"
	others := func(o *unstructured.Unstructured) { other.Mark(o, inventory.Place{Node: "x"}) }
	invalid := func(o *unstructured.Unstructured) {
		o.SetAnnotations(map[string]string{v1alpha1.SignatureAnnotation: owner.Keys.SignatureOf("i-1", owner.Key(), object.Key{Kind: "ConfigMap", Name: "former"}, "x")})
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: owner.Kind.Kind, Name: owner.Name, UID: owner.UID, Controller: new(true)}})
	}
	elsewhere := owner
	elsewhere.Namespace, elsewhere.Name = "payroll", "merger"
	tenants := func(o *unstructured.Unstructured) { elsewhere.Mark(o, inventory.Place{Node: "x"}) }
	in := func(namespace string) change {
		return func(o *unstructured.Unstructured) { o.SetNamespace(namespace) }
	}
	claimed := func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedStringMap(o.Object, map[string]string{"apiVersion": "kro.run/v1", "kind": "Team", "namespace": "payroll", "name": "merger"}, "spec", "claimRef")
	}
	const hidden = "an object of another namespace"
	labelled := func(o *unstructured.Unstructured) {
		o.SetLabels(map[string]string{v1alpha1.ApplySetPartOfLabel: owner.ID()})
	}
	instance := someone()
	cases := map[string]struct {
		holder  plan.NameHolder
		dialect object.Dialect
		adopts  bool
		reason  plan.Reason
		want    string
	}{
		"A terminating object of the instance is waited for": {
			plan.NameHolder{Unstructured: someone(ours, dying)}, object.GraphDialect, true, plan.ResourceDeleting, "it is recreated once it is gone",
		},
		"A terminating foreign object is waited for": {
			plan.NameHolder{Unstructured: someone(dying)}, object.GraphDialect, true, plan.NameHeld, "which is being deleted",
		},
		"An object of an instance that is being deleted is waited for": {
			plan.NameHolder{Unstructured: someone(others), Instance: someone(dying)}, object.GraphDialect, true, plan.NameHeld, "goes with Vpc prod/other, which is being deleted",
		},
		"What the status says of an object stays until its instance is read": {
			plan.NameHolder{Unstructured: someone(others), Syncing: true, Reported: plan.Problem{Reason: plan.NotOwned, Message: "ConfigMap prod/x already exists and belongs to another"}},
			object.GraphDialect, true, plan.NotOwned, "ConfigMap prod/x already exists and belongs to another",
		},
		"What the status says of another object does not": {
			plan.NameHolder{Unstructured: someone(others), Syncing: true, Reported: plan.Problem{Reason: plan.NotOwned, Message: "ConfigMap prod/xy already exists and belongs to another"}},
			object.GraphDialect, true, plan.Syncing, "checking whether",
		},
		"Another problem that the status has does not": {
			plan.NameHolder{Unstructured: someone(others), Syncing: true, Reported: plan.Problem{Reason: plan.NameHeld, Message: "ConfigMap prod/x is being deleted"}},
			object.GraphDialect, true, plan.Syncing, "checking whether",
		},
		"An object of an instance that has not been read is waited for": {
			plan.NameHolder{Unstructured: someone(others), Syncing: true}, object.GraphDialect, true, plan.Syncing, "checking whether",
		},
		"An object of another instance is not waited for": {
			plan.NameHolder{Unstructured: someone(others), Instance: instance, Writers: "kubectl"}, object.GraphDialect, true, plan.NotOwned, "belongs to Vpc prod/other; it is not changed. Give one of the two another name",
		},
		"The object of a Graph of kro's is not adopted": {
			plan.NameHolder{Unstructured: someone(ofGraph)}, object.GraphDialect, true, plan.NotOwned,
			"already exists and belongs to a Graph of kro (field manager kro-graphengine.tmpl.0123456789ab); it is not changed. Give one of the two another name",
		},
		"A Graph of kro's owns an object with the labels of the instance, too": {
			plan.NameHolder{Unstructured: someone(labelled, ofGraph)}, object.GraphDialect, true, plan.NotOwned, "belongs to a Graph of kro (field manager kro-",
		},
		"The message names the adopt policy": {
			plan.NameHolder{Unstructured: someone()}, object.GraphDialect, false, plan.NotOwned, "To adopt it, set adopt: IfUnowned on the resource",
		},
		"A node that may adopt needs no policy in the message": {
			plan.NameHolder{Unstructured: someone()}, object.GraphDialect, true, plan.NotOwned, "not changed. It is adopted with the next reconcile",
		},
		"The resource of a composition has an annotation instead": {
			plan.NameHolder{Unstructured: someone()}, object.CompositeDialect, false, plan.NotOwned, "not changed. To adopt it, set the annotation espalier.dev/adopt: IfUnowned on the resource in the composition",
		},
		"A CustomResourceDefinition can't be adopted by a composite": {
			plan.NameHolder{Unstructured: someone(definition)}, object.CompositeDialect, false, plan.NotOwned, "not changed. Delete it, or give one of the two another name",
		},
		"A graph definition can't be adopted": {
			plan.NameHolder{Unstructured: someone(func(o *unstructured.Unstructured) {
				o.SetGroupVersionKind(schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "ResourceGraphDefinition"})
			})}, object.GraphDialect, false, plan.NotOwned, "not changed. Delete it, or give one of the two another name",
		},
		"An invalid signature can be removed from a composed resource": {
			plan.NameHolder{Unstructured: someone(labelled, invalid)}, object.CompositeDialect, false, plan.NotOwned,
			"it is not changed. If it is this instance's, remove its annotation espalier.dev/signature",
		},
		"An object that has the instance's label and no proof has no owner": {
			plan.NameHolder{Unstructured: someone(labelled)}, object.GraphDialect, false, plan.NotOwned,
			"belongs to no known owner: its labels name this instance, and nothing proves that the instance has created it; it is not changed. To adopt it, set adopt: IfUnowned on the resource",
		},
		"An object with a controller can't be adopted": {
			plan.NameHolder{Unstructured: someone(deployment)}, object.GraphDialect, false, plan.NotOwned, "Give one of the two another name, or have Deployment web release it",
		},
		"An owner in another namespace is not named": {
			plan.NameHolder{Unstructured: someone(tenants)}, object.GraphDialect, false, plan.NotOwned, "belongs to " + hidden + "; it is not changed. Its metadata names that object",
		},
		"An owner in another namespace that is being deleted is not named": {
			plan.NameHolder{Unstructured: someone(tenants), Instance: someone(dying)}, object.GraphDialect, false, plan.NameHeld, "of " + hidden + ", which is deleted with that object; it is created once that is gone",
		},
		"An owner in another namespace that has not been read is not named": {
			plan.NameHolder{Unstructured: someone(tenants), Syncing: true}, object.GraphDialect, false, plan.Syncing, "checking whether the owner of ConfigMap prod/x in another namespace is being deleted",
		},
		"A controller in another namespace is not named": {
			plan.NameHolder{Unstructured: someone(deployment, in("payroll"))}, object.GraphDialect, false, plan.NotOwned, "belongs to " + hidden,
		},
		"A claim in another namespace is not named": {
			plan.NameHolder{Unstructured: someone(claimed)}, object.ClaimDialect, false, plan.NotOwned, "belongs to " + hidden,
		},
		"The message names its managers": {
			plan.NameHolder{Unstructured: someone(), Writers: "kubectl"}, object.GraphDialect, false, plan.NotOwned, "(written by kubectl)",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			owner := owner
			owner.Definition.Dialect = tc.dialect
			got := plan.NameConflictProblem(tc.holder, owner, tc.adopts)
			if got.Reason != tc.reason || !strings.Contains(got.Message, tc.want) {
				t.Errorf("got %s: %q, want %s: %q", got.Reason, got.Message, tc.reason, tc.want)
			}
			if tc.adopts && strings.Contains(got.Message, "IfUnowned") {
				t.Errorf("it advises what is so already: %s", got.Message)
			}
			if strings.Contains(got.Message, "merger") {
				t.Errorf("it names an object of another namespace: %s", got.Message)
			}
		})
	}
}

func TestMayAdopt(t *testing.T) {
	key := owner.Key()
	claimable := func(value string) change { return annotated(v1alpha1.ClaimableAnnotation, value) }
	anothers := func(o *unstructured.Unstructured) {
		o.SetLabels(map[string]string{v1alpha1.ApplySetPartOfLabel: "applyset-x-v1"})
	}
	claimedBy := func(name string) change {
		return func(o *unstructured.Unstructured) {
			o.Object["spec"] = map[string]any{"claimRef": map[string]any{"apiVersion": owner.Kind.GroupVersion().String(), "kind": key.Kind, "namespace": key.Namespace, "name": name}}
		}
	}
	unowned, claims := plan.Step{AdoptUnowned: true}, plan.Step{AdoptClaimable: true}
	cases := map[string]struct {
		reason string
		step   plan.Step
		found  *unstructured.Unstructured
		want   bool
	}{
		"An object without owner":                                {"the node doesn't allow it", plan.Step{}, someone(), false},
		"An object without owner, if the node allows it":         {"it belongs to nobody", unowned, someone(), true},
		"An object of another owner, if the node allows it":      {"its owner would lose it", unowned, someone(anothers), false},
		"An object that is being deleted, if the node allows it": {"it will be gone", unowned, someone(dying), false},
		"A composite that isn't marked as claimable":             {"its owner doesn't allow it", claims, someone(), false},
		"A claimable composite":                                  {"its owner allows it", claims, someone(claimable(v1alpha1.ClaimableTrue)), true},
		"A composite that this claim may take over":              {"its owner names the claim", claims, someone(claimable(key.Namespace + "/" + key.Name)), true},
		"A composite that another claim may take over":           {"its owner names the other claim", claims, someone(claimable(key.Namespace + "/other")), false},
		"A claimable composite of another claim":                 {"the other claim has taken it over", claims, someone(claimable(v1alpha1.ClaimableTrue), claimedBy("other")), false},
		"A claimable composite that names this claim":            {"it belongs to no other claim", claims, someone(claimable(v1alpha1.ClaimableTrue), claimedBy(key.Name)), true},
		"A claimable composite that is being deleted":            {"it will be gone", claims, someone(claimable(v1alpha1.ClaimableTrue), dying), false},
		"A claimable object of a node of a graph":                {"only claims take over composites", plan.Step{}, someone(claimable(v1alpha1.ClaimableTrue)), false},
	}
	for name, tc := range cases {
		if got := tc.step.MayAdopt(tc.found, owner); got != tc.want {
			t.Errorf("%s: %s: got %t", name, tc.reason, got)
		}
	}
}
