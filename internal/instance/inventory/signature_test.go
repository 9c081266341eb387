package inventory_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/signing"
)

var (
	beforeKey = signing.Created.Add(-time.Hour)
	afterKey  = signing.Created.Add(time.Hour)
)

// createdAt is the instance prod/main, created at a time.
func createdAt(at time.Time) *unstructured.Unstructured {
	o := instance()
	o.SetCreationTimestamp(metav1.Time{Time: at})
	return o
}

func ownerOf(o *unstructured.Unstructured, keys inventory.Keys) inventory.Owner {
	return inventory.OwnerOf(o, object.Definition{Name: "vpc"}, "v1").Recognizing(keys, o, time.Time{})
}

// marked is a child in a namespace that an instance has applied, with changes since.
func marked(of inventory.Owner, namespace string, changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	o := child()
	o.SetNamespace(namespace)
	of.Mark(o, inventory.Place{Node: "settings"})
	for _, change := range changes {
		change(o)
	}
	return o
}

func withAnnotation(key, value string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		annotations := o.GetAnnotations()
		if annotations[key] = value; value == "" {
			delete(annotations, key)
		}
		o.SetAnnotations(annotations)
	}
}

func labelledWith(key, value string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		labels := o.GetLabels()
		if labels[key] = value; value == "" {
			delete(labels, key)
		}
		o.SetLabels(labels)
	}
}

func aged(at time.Time) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) { o.SetCreationTimestamp(metav1.Time{Time: at}) }
}

func named(namespace, name string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) { o.SetNamespace(namespace); o.SetName(name) }
}

func ownedBy(uid types.UID) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "kro.run/v1alpha1", Kind: "Vpc", Name: "main", UID: uid}})
	}
}

func controlledBy(uid types.UID) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		yes := true
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "kro.run/v1alpha1", Kind: "Vpc", Name: "main", UID: uid, Controller: &yes}})
	}
}

func claimedBy(name string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		o.Object["spec"] = map[string]any{"claimRef": map[string]any{"apiVersion": "kro.run/v1alpha1", "kind": "Vpc", "namespace": "prod", "name": name}}
	}
}

// TestOwns says which objects are an instance's, and which only look so.
func TestOwns(t *testing.T) {
	young := ownerOf(createdAt(afterKey), signing.Keys())
	old := createdAt(beforeKey)
	old.SetAnnotations(map[string]string{v1alpha1.ApplySetNamespacesAnnotation: "recorded"})
	in := func(d object.Dialect) inventory.Owner {
		return inventory.OwnerOf(old, object.Definition{Name: "vpc", Dialect: d}, "v1").Recognizing(signing.Keys(), old, time.Time{})
	}
	former := createdAt(beforeKey)
	former.SetUID("i-0")
	other := createdAt(afterKey)
	other.SetName("other")
	unsigned, same := withAnnotation(v1alpha1.SignatureAnnotation, ""), func(*unstructured.Unstructured) {}
	signature := func(text string) func(*unstructured.Unstructured) {
		return withAnnotation(v1alpha1.SignatureAnnotation, text)
	}
	anew := young.Keys.SignatureOf("i-1", young.Key(), object.Key{Kind: "ConfigMap", Namespace: "prod", Name: "x"}, "settings")
	cases := map[string]struct {
		reason string
		owner  inventory.Owner
		object *unstructured.Unstructured
		want   bool
	}{
		"What the instance has applied":          {"its signature proves it", young, marked(young, "prod"), true},
		"The same in any namespace":              {"the namespace is signed", young, marked(young, "elsewhere"), true},
		"What is cluster-scoped":                 {"the same", young, marked(young, ""), true},
		"What a former incarnation has left":     {"its UID is in the signature", young, marked(ownerOf(former, signing.Keys()), "prod"), true},
		"What a former key has signed":           {"keys are replaced", ownerOf(createdAt(afterKey), signing.Keys("k2", "k1")), marked(young, "prod"), true},
		"What a key of another installation has": {"it is unknown", young, marked(ownerOf(createdAt(afterKey), signing.Keys("k2")), "prod"), false},
		"A copy under another name":              {"the name is signed", young, marked(young, "prod", named("prod", "copy")), false},
		"A copy in another namespace":            {"the namespace is signed", young, marked(young, "prod", named("team", "x")), false},
		"A copy with its owner reference":        {"whoever copies a signature copies this too", young, marked(young, "prod", named("prod", "copy"), ownedBy("i-1")), false},
		"A copy of another kind": {"the kind is signed", young, marked(young, "prod", func(o *unstructured.Unstructured) {
			o.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Secret"})
		}), false},
		"A child in another version of its kind": {"versions are converted", young, marked(young, "prod", func(o *unstructured.Unstructured) { o.SetAPIVersion("v1beta1") }), true},
		"Another node's child":                   {"the node is signed", young, marked(young, "prod", labelledWith(v1alpha1.NodeIDLabel, "b")), false},
		"Another instance's child":               {"its label names that one", young, marked(ownerOf(other, signing.Keys()), "prod"), false},
		"Another instance's child, relabelled":   {"the instance is signed", young, marked(ownerOf(other, signing.Keys()), "prod", labelledWith(v1alpha1.ApplySetPartOfLabel, young.ID())), false},
		"A child without the label":              {"its signature proves it", young, marked(young, "prod", labelledWith(v1alpha1.ApplySetPartOfLabel, "")), true},
		"A child with another's label":           {"the same", young, marked(young, "prod", labelledWith(v1alpha1.ApplySetPartOfLabel, ownerOf(other, signing.Keys()).ID())), true},
		"A copy without the label":               {"the name is signed", young, marked(young, "prod", named("prod", "copy"), labelledWith(v1alpha1.ApplySetPartOfLabel, "")), false},
		"A signature of its own place":           {"it is what the instance would write", young, marked(young, "prod", signature(anew)), true},
		"A signature with another UID":           {"the UID is signed", young, marked(young, "prod", signature(strings.Replace(anew, ":i-1:", ":i-2:", 1))), false},
		"A signature that says no version":       {"it is malformed", young, marked(young, "prod", signature(strings.TrimPrefix(anew, "v1:"))), false},
		"A signature of a version to come":       {"it is unknown", young, marked(young, "prod", signature(strings.Replace(anew, "v1", "v2", 1))), false},
		"A longer signature":                     {"it is malformed", young, marked(young, "prod", signature(anew+":")), false},
		"A shorter signature":                    {"it is another", young, marked(young, "prod", signature(anew[:len(anew)-4])), false},
		"An empty signature": {"it is no signature", young, marked(young, "prod", func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{v1alpha1.SignatureAnnotation: ""})
		}), false},

		"A copied label":                                {"whoever may write labels can copy it", young, marked(young, "prod", unsigned), false},
		"A copied label on an old object":               {"the instance is younger", young, marked(young, "prod", unsigned, aged(beforeKey)), false},
		"An owner reference to the instance":            {"whoever creates an object can set it", young, marked(young, "prod", unsigned, ownedBy("i-1")), false},
		"An owner reference of a young object":          {"it would have been signed when it was created", ownerOf(old, signing.Keys()), marked(young, "prod", unsigned, ownedBy("i-1"), aged(afterKey)), false},
		"An owner reference of an old object":           {"an earlier release has made it", ownerOf(old, signing.Keys()), marked(young, "prod", unsigned, ownedBy("i-1"), aged(beforeKey), labelledWith(v1alpha1.NodeIDLabel, "")), true},
		"A signature by a key that was lost":            {"it counts as none", ownerOf(old, signing.Keys()), marked(ownerOf(old, signing.Keys("k2")), "prod", aged(beforeKey)), true},
		"The same of a young object":                    {"it counts as none", ownerOf(old, signing.Keys()), marked(ownerOf(old, signing.Keys("k2")), "prod", aged(afterKey)), false},
		"An invalid signature of an old object":         {"its key is known", ownerOf(old, signing.Keys()), marked(young, "prod", named("prod", "copy"), aged(beforeKey)), false},
		"A malformed id of a key, on an old object":     {"it is no signature of a lost key", ownerOf(old, signing.Keys()), marked(young, "prod", signature("v1:K-9:i-1:AAAA"), aged(beforeKey)), false},
		"A part of a signature, on an old object":       {"it is the same", ownerOf(old, signing.Keys()), marked(young, "prod", signature("v1"), aged(beforeKey)), false},
		"A version to come, on an old object":           {"it is the same", ownerOf(old, signing.Keys()), marked(young, "prod", signature("v2:k9:i-1:AAAA"), aged(beforeKey)), false},
		"An owner reference to a former incarnation":    {"the garbage collector deletes it", ownerOf(old, signing.Keys()), marked(young, "prod", unsigned, ownedBy("i-0"), aged(beforeKey), labelledWith(v1alpha1.NodeIDLabel, "")), false},
		"An owner reference from another namespace":     {"Kubernetes knows none", ownerOf(old, signing.Keys()), marked(young, "team", unsigned, ownedBy("i-1"), aged(beforeKey)), false},
		"An owner reference without label":              {"an owner is no definition", ownerOf(old, signing.Keys()), marked(young, "prod", unsigned, ownedBy("i-1"), aged(beforeKey), labelledWith(v1alpha1.ApplySetPartOfLabel, "")), false},
		"A child of the second of the key":              {"a release that signs has made it", ownerOf(old, signing.Keys()), marked(young, "prod", unsigned, aged(signing.Created)), false},
		"A child that is older than the key":            {"an earlier release has made it", ownerOf(old, signing.Keys()), marked(young, "prod", unsigned, aged(beforeKey)), true},
		"An old child in a recorded namespace":          {"the inventory is as old", ownerOf(old, signing.Keys()), marked(young, "recorded", unsigned, aged(beforeKey)), true},
		"An old child that is cluster-scoped":           {"the same", ownerOf(old, signing.Keys()), marked(young, "", unsigned, aged(beforeKey)), true},
		"An old object in a namespace of somebody else": {"the instance has recorded none of the kind", ownerOf(old, signing.Keys()), marked(young, "team", unsigned, aged(beforeKey)), false},
		"An old object without a node":                  {"no release has made it", ownerOf(old, signing.Keys()), marked(young, "prod", unsigned, aged(beforeKey), labelledWith(v1alpha1.NodeIDLabel, "")), false},
		"A young object without signature":              {"releases with a key sign", ownerOf(old, signing.Keys()), marked(young, "prod", unsigned, aged(afterKey)), false},
		"An object of unknown age":                      {"it proves nothing", ownerOf(old, signing.Keys()), marked(young, "prod", unsigned), false},
		"Without keys nothing is proved":                {"a program without keys has no children", inventory.OwnerOf(createdAt(beforeKey), object.Definition{}, ""), marked(young, "prod", same), false},
		"A composed resource":                           {"its controller is the composite", in(object.CompositeDialect), marked(young, "prod", unsigned, controlledBy("i-1"), labelledWith(v1alpha1.ApplySetPartOfLabel, "")), true},
		"A composed resource taken over by another":     {"its label names that one", in(object.CompositeDialect), marked(ownerOf(other, signing.Keys()), "prod", unsigned, controlledBy("i-1")), false},
		"An old composed resource without either":       {"neither controller nor label names the composite", in(object.CompositeDialect), marked(young, "prod", unsigned, aged(beforeKey), labelledWith(v1alpha1.ApplySetPartOfLabel, "")), false},
		"A composite of the claim":                      {"it refers to the claim", in(object.ClaimDialect), marked(young, "", unsigned, claimedBy("main"), labelledWith(v1alpha1.ApplySetPartOfLabel, "")), true},
		"A composite of another claim":                  {"it refers to that one", in(object.ClaimDialect), marked(young, "", unsigned, claimedBy("other"), labelledWith(v1alpha1.ApplySetPartOfLabel, "")), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.owner.Owns(tc.object); got != tc.want {
				t.Errorf("%t: %s: %v", got, tc.reason, tc.object.Object["metadata"])
			}
		})
	}
	if relabelled := marked(young, "prod", labelledWith(v1alpha1.NodeIDLabel, "b")); !young.OwnsAs(relabelled, "settings") || young.OwnsAs(relabelled, "c") {
		t.Error("a child without its node's label isn't known where the node wants it")
	}
}

// TestAProvedIncarnationStaysAChild has an owner that remembers the object with the UID u as the child of a node.
func TestAProvedIncarnationStaysAChild(t *testing.T) {
	owner := ownerOf(createdAt(afterKey), signing.Keys())
	owner.Proved = map[types.UID]inventory.ProvedChild{"u": {Node: "settings"}}
	otherInstance := createdAt(afterKey)
	otherInstance.SetName("other")
	other := ownerOf(otherInstance, signing.Keys())
	unsigned := withAnnotation(v1alpha1.SignatureAnnotation, "")
	with := func(uid types.UID) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) { o.SetUID(uid) }
	}
	bare := func(o *unstructured.Unstructured) { o.SetLabels(nil); o.SetAnnotations(nil) }
	cases := map[string]struct {
		object *unstructured.Unstructured
		node   string
		want   bool
	}{
		"it has lost its signature":               {marked(owner, "prod", with("u"), unsigned), "settings", true},
		"its signature is invalid":                {marked(owner, "prod", with("u"), withAnnotation(v1alpha1.SignatureAnnotation, "v1:k1:i-1:AAAA")), "settings", true},
		"it has lost everything":                  {marked(owner, "prod", with("u"), bare), "settings", true},
		"it names an instance that has no proof":  {marked(other, "prod", with("u"), unsigned), "settings", true},
		"another instance has taken it over":      {marked(other, "prod", with("u")), "settings", false},
		"another node wants it":                   {marked(owner, "prod", with("u"), bare), "b", false},
		"it is to be read as another node":        {marked(owner, "prod", with("u"), unsigned, labelledWith(v1alpha1.NodeIDLabel, "b")), "b", false},
		"another incarnation without a signature": {marked(owner, "prod", with("v"), unsigned), "settings", false},
	}
	for name, tc := range cases {
		if got := owner.OwnsAs(tc.object, tc.node); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestATakenOverKindVouchesForItsInstances has a kind that another engine served until after the key
// was created.
func TestATakenOverKindVouchesForItsInstances(t *testing.T) {
	takenOver := inventory.TakenOver(map[string]string{v1alpha1.TakenOverAnnotation: afterKey.Add(time.Second).Format(time.RFC3339)})
	of := func(at time.Time) inventory.Owner {
		return inventory.OwnerOf(createdAt(at), object.Definition{}, "v1").Recognizing(signing.Keys(), createdAt(at), takenOver)
	}
	theirs := func(at time.Time) *unstructured.Unstructured {
		return marked(of(afterKey), "prod", withAnnotation(v1alpha1.SignatureAnnotation, ""), aged(at))
	}
	if !of(afterKey).Owns(theirs(afterKey)) {
		t.Error("what the other engine has made is lost")
	}
	if of(afterKey).Owns(theirs(afterKey.Add(time.Second))) || of(afterKey.Add(time.Second)).Owns(theirs(beforeKey)) {
		t.Error("a label is enough, long after the takeover")
	}
	for _, text := range []string{"", "soon"} {
		if at := inventory.TakenOver(map[string]string{v1alpha1.TakenOverAnnotation: text}); !at.IsZero() {
			t.Errorf("%q: %s", text, at)
		}
	}
}

// TestATakeoverCountsForGraphsAlone has kinds for which a takeover is recorded.
func TestATakeoverCountsForGraphsAlone(t *testing.T) {
	takenOver := afterKey.Add(time.Second)
	never, err := inventory.NewKeys("k1", map[string][]byte{"k1": []byte(strings.Repeat("k1", inventory.KeySize))}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		dialect object.Dialect
		keys    inventory.Keys
		want    bool
	}{
		"what kro has made is accepted":                       {object.GraphDialect, signing.Keys(), true},
		"composed resources of Crossplane have a controller":  {object.CompositeDialect, signing.Keys(), false},
		"composites of claims refer to them":                  {object.ClaimDialect, signing.Keys(), false},
		"the administrator accepts nothing without signature": {object.GraphDialect, never, false},
	} {
		owner := inventory.OwnerOf(createdAt(afterKey), object.Definition{Dialect: tc.dialect}, "v1").Recognizing(tc.keys, createdAt(afterKey), takenOver)
		theirs := child()
		theirs.SetNamespace("prod")
		theirs.SetCreationTimestamp(metav1.Time{Time: afterKey})
		theirs.SetLabels(map[string]string{v1alpha1.ApplySetPartOfLabel: owner.ID(), v1alpha1.NodeIDLabel: "settings"})
		if got := owner.Owns(theirs); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestRecorded says how far the inventory on an instance is believed.
func TestRecorded(t *testing.T) {
	recorded := func(keys inventory.Keys, at time.Time, changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
		o := createdAt(at)
		owner := inventory.OwnerOf(o, object.Definition{Name: "vpc"}, "v1")
		owner.Keys = keys
		o = inventory.MetadataOf(owner, inventory.Of([]schema.GroupKind{configMaps}, "b"), inventory.Defaults{}).Configuration(o)
		o.SetCreationTimestamp(metav1.Time{Time: at})
		for _, change := range changes {
			change(o)
		}
		return o
	}
	former := func(o *unstructured.Unstructured) { o.SetUID("i-0") }
	renamed := func(o *unstructured.Unstructured) { o.SetName("other") }
	everywhere := withAnnotation(v1alpha1.ApplySetNamespacesAnnotation, "b,kube-system")
	kro := withAnnotation(v1alpha1.ApplySetHashAnnotation, "sha256:abc")
	cases := map[string]struct {
		instance   *unstructured.Unstructured
		intact     bool
		namespaces bool
	}{
		"What is signed is believed":                                                 {recorded(signing.Keys(), afterKey), true, true},
		"What a former incarnation recorded is believed":                             {recorded(signing.Keys(), afterKey, former), true, true},
		"A former key's signature is believed":                                       {recorded(signing.Keys("k2"), afterKey), true, true},
		"Another namespace is not":                                                   {recorded(signing.Keys(), afterKey, everywhere), false, false},
		"Another kind is not":                                                        {recorded(signing.Keys(), afterKey, withAnnotation(v1alpha1.ApplySetKindsAnnotation, "Secret")), false, false},
		"Another instance's inventory is not":                                        {recorded(signing.Keys(), afterKey, renamed), false, false},
		"One of another installation is not":                                         {recorded(signing.Keys("k9"), afterKey), false, false},
		"A signature that is gone leaves nothing":                                    {recorded(signing.Keys(), afterKey, withAnnotation(v1alpha1.ApplySetHashAnnotation, "")), false, false},
		"A digest without key proves nothing":                                        {recorded(inventory.Keys{}, afterKey), false, false},
		"Another engine's hash proves nothing":                                       {recorded(signing.Keys(), afterKey, kro), false, false},
		"The digest of an earlier release is believed on an instance of that time":   {recorded(inventory.Keys{}, beforeKey), true, true},
		"Another engine's inventory, on an instance of that time":                    {recorded(signing.Keys(), beforeKey, kro), false, true},
		"A signed inventory that was modified, also on an old instance":              {recorded(signing.Keys(), beforeKey, everywhere), false, false},
		"The signature of a key that was lost, on an instance of an earlier release": {recorded(signing.Keys("k9"), beforeKey), false, true},
		"A malformed signature, on such an instance":                                 {recorded(signing.Keys("k9"), beforeKey, withAnnotation(v1alpha1.ApplySetHashAnnotation, "hmac-sha256:v1:k9")), false, false},
		"An instance without finalizer and label has recorded nothing":               {createdAt(afterKey), true, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			owner := ownerOf(tc.instance, signing.Keys("k1", "k2"))
			if got := owner.IsIntact(tc.instance); got != tc.intact {
				t.Errorf("intact: %t", got)
			}
			if got := owner.Recorded(tc.instance); (len(got.Namespaces) > 0) != tc.namespaces || tc.instance.GetAnnotations() != nil && len(got.Kinds) != 1 {
				t.Errorf("recorded: %v", got)
			}
		})
	}
}

// TestUnprovedObjectsHaveNoOwner says which objects a node may adopt, if its definition says so.
func TestUnprovedObjectsHaveNoOwner(t *testing.T) {
	owner := ownerOf(createdAt(afterKey), signing.Keys())
	other := createdAt(afterKey)
	other.SetName("other")
	invalid := withAnnotation(v1alpha1.SignatureAnnotation, "v1:k1:i-1:AAAA")
	yes := true
	cases := map[string]struct {
		object *unstructured.Unstructured
		want   bool
	}{
		"only the instance's own label":                           {marked(owner, "prod", withAnnotation(v1alpha1.SignatureAnnotation, "")), true},
		"its label and an invalid signature":                      {marked(owner, "prod", invalid), true},
		"its label and owner reference, and an invalid signature": {marked(owner, "prod", invalid, ownedBy("i-1")), true},
		"its label and controller reference":                      {marked(owner, "prod", invalid, controlledBy("i-1")), true},
		"a reference to it as its claim":                          {marked(owner, "", invalid, claimedBy("main")), true},
		"a reference to another claim":                            {marked(owner, "", invalid, claimedBy("other")), false},
		"another instance's label":                                {marked(ownerOf(other, signing.Keys()), "prod"), false},
		"its label, and another controller": {marked(owner, "prod", invalid, func(o *unstructured.Unstructured) {
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "d", Controller: &yes}})
		}), false},
	}
	for name, tc := range cases {
		if got := owner.IsUnowned(tc.object); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestASignatureIsPartOfWhatIsApplied has one that a template sets, which Mark replaces.
func TestASignatureIsPartOfWhatIsApplied(t *testing.T) {
	owner := ownerOf(createdAt(afterKey), signing.Keys())
	forged := child()
	forged.SetAnnotations(map[string]string{v1alpha1.SignatureAnnotation: "v1:k1:i-1:forged"})
	owner.Mark(forged, inventory.Place{Node: "a"})
	plain := child()
	owner.Mark(plain, inventory.Place{Node: "a"})
	if forged.GetAnnotations()[v1alpha1.SignatureAnnotation] != plain.GetAnnotations()[v1alpha1.SignatureAnnotation] || inventory.AppliedDigest(forged) != inventory.AppliedDigest(plain) {
		t.Error("the template's signature stays")
	}
	rotated := child()
	ownerOf(createdAt(afterKey), signing.Keys("k2", "k1")).Mark(rotated, inventory.Place{Node: "a"})
	if inventory.AppliedDigest(rotated) == inventory.AppliedDigest(plain) {
		t.Error("a new key signs nothing anew")
	}
	if _, annotations := inventory.Marks(plain); !strings.Contains(fmt.Sprint(annotations), v1alpha1.SignatureAnnotation) {
		t.Error("what is released keeps its signature, and can be put back")
	}
}

func TestKeysOf(t *testing.T) {
	key := strings.Repeat("k", inventory.KeySize)
	secret := func(annotation string, entries ...string) *unstructured.Unstructured {
		data := map[string]any{}
		for i := 0; i < len(entries); i += 2 {
			data[entries[i]] = base64.StdEncoding.EncodeToString([]byte(entries[i+1]))
		}
		o := &unstructured.Unstructured{Object: map[string]any{"data": data}}
		o.SetCreationTimestamp(metav1.Time{Time: signing.Created})
		if annotation != "" {
			o.SetAnnotations(map[string]string{v1alpha1.UnsignedBeforeAnnotation: annotation})
		}
		return o
	}
	malformed := secret("")
	malformed.Object["data"] = map[string]any{"current": "?"}
	for name, tc := range map[string]struct {
		secret *unstructured.Unstructured
		want   string
	}{
		"a new one":           {inventory.NewKeySecret("system", []byte(key)), ""},
		"two keys":            {secret("", "current", "a", "a", key, "b", key+"b"), ""},
		"a time":              {secret("2026-08-01T12:00:00Z", "current", "a", "a", key), ""},
		"never":               {secret("never", "current", "a", "a", key), ""},
		"an empty Secret":     {secret(""), `its entry "current" names none of its keys`},
		"no current key":      {secret("", "a", key), `its entry "current" names none of its keys`},
		"another current key": {secret("", "current", "b", "a", key), `its entry "current" names none of its keys`},
		"a short key":         {secret("", "current", "a", "a", "short"), "key a has 5 bytes; it must have at least 32 and at most 1024"},
		"a key with a colon":  {secret("", "current", "a:b", "a:b", key), "the id of a key can have"},
		"no base64":           {malformed, "its data is not base64"},
		"no time":             {secret("soon", "current", "a", "a", key), `is neither "never" nor a time`},
	} {
		_, err := inventory.KeysOf(tc.secret)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	keys, err := inventory.KeysOf(inventory.NewKeySecret("system", []byte(key)))
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(verb, inventory.Owner{Keys: keys}); strings.Contains(text, key) || strings.Contains(text, "107 107") || strings.Contains(text, "0x6b, 0x6b") {
			t.Errorf("%s prints the key: %s", verb, text)
		}
	}
}

// FuzzVerifies looks for two places with one signature, and for texts that panic or that verify
// without having been computed.
func FuzzVerifies(f *testing.F) {
	f.Add("i-1", "g", "Kind", "ns", "name", "g2", "Kind2", "ns2", "name2", "node", "nod", "e", "v1:k1:i-1:AAAA")
	f.Add("", "", "", "", "", "", "", "", "", "", "", "", "::::")
	f.Fuzz(func(t *testing.T, uid, g, k, ns, n, cg, ck, cns, cn, node, more, otherUID, text string) {
		keys := signing.Keys()
		instance, child := object.Key{Group: g, Kind: k, Namespace: ns, Name: n}, object.Key{Group: cg, Kind: ck, Namespace: cns, Name: cn}
		signature := keys.SignatureOf(uid, instance, child, node)
		if !strings.Contains(uid, ":") && !keys.Verifies(signature, instance, child, node) {
			t.Fatalf("%q does not verify", signature)
		}
		shifted := child
		shifted.Name += more
		for _, other := range []struct {
			instance, child object.Key
			node            string
		}{
			{instance, shifted, node},
			{instance, child, node + more},
			{child, instance, node},
			{object.Key{Group: g + k, Namespace: ns, Name: n}, child, node},
			{object.Key{Group: g, Kind: k, Namespace: ns + n}, child, node},
		} {
			same := other.instance == instance && other.child == child && other.node == node
			if keys.Verifies(signature, other.instance, other.child, other.node) && !same {
				t.Fatalf("%q is that of %v too", signature, other)
			}
		}
		if text != signature && keys.Verifies(text, instance, child, node) && !strings.HasPrefix(text, "v1:k1:") {
			t.Fatalf("%q verifies", text)
		}
		if otherUID != uid && !strings.Contains(uid+otherUID, ":") && keys.Verifies(strings.Replace(signature, ":"+uid+":", ":"+otherUID+":", 1), instance, child, node) {
			t.Fatalf("%q verifies with UID %q", signature, otherUID)
		}
	})
}
