package inventory

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// signatureVersion begins every signature, with what is signed in that version.
const signatureVersion = "v1"

// No two lists of texts have the same encoding.
func message(texts ...string) []byte {
	size := 0
	for _, text := range texts {
		size += 8 + len(text)
	}
	out := make([]byte, 0, size)
	for _, text := range texts {
		out = binary.BigEndian.AppendUint64(out, uint64(len(text)))
		out = append(out, text...)
	}
	return out
}

// The UID is of the incarnation of the instance that applied the child.
func childMessage(uid string, instance, child object.Key, node string) []byte {
	return message("espalier child "+signatureVersion, uid,
		instance.Group, instance.Kind, instance.Namespace, instance.Name,
		child.Group, child.Kind, child.Namespace, child.Name, node)
}

// SignatureOf is the signature of an instance's child: the version, the id of the key, the
// UID of the instance and the keyed hash, with colons.
func (k Keys) SignatureOf(uid string, instance, child object.Key, node string) string {
	id, hash := k.sign(childMessage(uid, instance, child, node))
	return strings.Join([]string{signatureVersion, id, uid, hash}, ":")
}

// Verifies reports whether a signature proves that an incarnation of the instance has applied the child for the node.
// Any incarnation counts: the next one finds what the former has left.
func (k Keys) Verifies(signature string, instance, child object.Key, node string) bool {
	parts := strings.Split(signature, ":")
	return len(parts) == 4 && parts[0] == signatureVersion &&
		k.verifies(childMessage(parts[2], instance, child, node), parts[1], parts[3])
}

// InstanceOf returns the instance that a child belongs to, as the function InstanceOf does, if that is proved: by the
// child's signature, or, for one without, by its age. Otherwise a user who can write labels can name any instance.
// Without keys, the metadata alone counts.
func (k Keys) InstanceOf(child *unstructured.Unstructured) (key object.Key, version string, ok bool) {
	key, version, ok = InstanceOf(child)
	if !ok || k.IsZero() {
		return key, version, ok
	}
	signature, signed := textOf(child, "annotations", v1alpha1.SignatureAnnotation)
	if signed && !k.isByUnknownKey(signature) {
		ok = k.Verifies(signature, key, object.KeyOf(child), Node(child))
	} else {
		ok = isOlder(child, k.unsignedBefore)
	}
	if !ok {
		return object.Key{}, "", false
	}
	return key, version, true
}

// isByUnknownKey reports whether a signature is well-formed, and of a key that is not among these: it neither proves
// nor disproves anything.
func (k Keys) isByUnknownKey(signature string) bool {
	parts := strings.Split(signature, ":")
	return len(parts) == 4 && parts[0] == signatureVersion && k.isUnknown(parts[1])
}

// sign sets the signature of a child among its annotations. Without keys it removes one that a template has.
func (o Owner) sign(annotations map[string]string, child *unstructured.Unstructured, node string) {
	delete(annotations, v1alpha1.SignatureAnnotation)
	if !o.Keys.IsZero() {
		annotations[v1alpha1.SignatureAnnotation] = o.Keys.SignatureOf(string(o.UID), o.Key(), object.KeyOf(child), node)
	}
}

// Recognizing returns the owner with what it recognizes its children by: the installation's keys, and, for objects
// without signature, how long they are accepted, if the instance is of that time itself. TakenOver is when this program
// began to serve the instance's kind, if another engine did before; zero if none did. It counts in the graph dialect
// alone: in the others the other engine's children have owner references. Where the keys accept nothing without
// signature, it doesn't count either.
func (o Owner) Recognizing(keys Keys, instance *unstructured.Unstructured, takenOver time.Time) Owner {
	o.Keys = keys
	if keys.IsZero() {
		return o
	}
	before := keys.unsignedBefore
	if o.Definition.Dialect == object.GraphDialect && !before.IsZero() {
		before = latest(before, takenOver)
	}
	if isOlder(instance, before) {
		o.unsignedBefore = before
	}
	o.namespaces = o.Recorded(instance).Namespaces
	return o
}

// TakenOver reads when this program began to serve a kind that another engine had served, from
// the annotations of its CustomResourceDefinition.
func TakenOver(annotations map[string]string) time.Time {
	at, err := time.Parse(time.RFC3339, annotations[v1alpha1.TakenOverAnnotation])
	if err != nil {
		return time.Time{}
	}
	return at
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// isOlder reports whether an object was created before a time. API servers count seconds: in the second of the signing
// key's creation, an instance is one of a release that signs.
func isOlder(o *unstructured.Unstructured, than time.Time) bool {
	created := o.GetCreationTimestamp().Time
	return !created.IsZero() && created.Before(than)
}

// Owns reports whether an object is one of the instance's children. Its label only names the instance: a user who can
// write labels can copy it. A signature proves it, or, without one:
//   - in Crossplane's dialect, the controller reference to this incarnation of the instance, or
//     the claim's reference of a composite;
//   - its age and the instance's: both were there before the installation had a signing key,
//     or before it took the kind over. The object refers to the instance as an owner, or is in a
//     recorded namespace.
//
// An invalid signature disproves it: a copy of an object has its owner references too. One of an unknown key counts as
// none. An incarnation that was proved before stays a child, whatever marks it has lost: nobody can copy a UID.
func (o Owner) Owns(child *unstructured.Unstructured) bool { return o.OwnsAs(child, Node(child)) }

// OwnsAs is Owns for an object that is known to be the node's, whatever its label of the node says.
func (o Owner) OwnsAs(child *unstructured.Unstructured, node string) bool {
	set, labelled := label(child, v1alpha1.ApplySetPartOfLabel), Node(child)
	if known, ok := o.Proved[child.GetUID()]; ok && (known.Node == node || known.Node == labelled) && !o.isOfAnother(child, set) {
		return true
	}
	if signature, signed := textOf(child, "annotations", v1alpha1.SignatureAnnotation); signed && !o.Keys.isByUnknownKey(signature) {
		return o.Keys.Verifies(signature, o.Key(), object.KeyOf(child), labelled) ||
			node != labelled && o.Keys.Verifies(signature, o.Key(), object.KeyOf(child), node)
	}
	if set != "" && set != o.ID() || set == "" && o.Definition.Dialect == object.GraphDialect {
		return false
	}
	return o.refersToThis(child) || set != "" && labelled != "" && o.isOfOldInventory(child)
}

// isOfAnother reports whether it is proved that an object with this label is another instance's, which has taken
// it over.
func (o Owner) isOfAnother(child *unstructured.Unstructured, set string) bool {
	if set == "" || set == o.ID() {
		return false
	}
	key, _, proved := o.Keys.InstanceOf(child)
	return proved && key != o.Key()
}

// ProvedChild is what is remembered of an object that was proved to be a child: its node, and where it is.
type ProvedChild struct {
	Node            string
	Kind            schema.GroupVersionKind
	Namespace, Name string
}

// IsDisprovedBySignature reports whether an object would be one of the instance's children without the signature that
// it has.
func (o Owner) IsDisprovedBySignature(child *unstructured.Unstructured) bool {
	if o.Owns(child) {
		return false
	}
	bare := child.DeepCopy()
	annotations := bare.GetAnnotations()
	delete(annotations, v1alpha1.SignatureAnnotation)
	bare.SetAnnotations(annotations)
	return o.Owns(bare)
}

// refersToThis reports whether an object without signature refers to the instance in a way that its dialect takes for
// ownership. In the graph dialect every object of a release that signs was signed when it was created: an owner
// reference alone counts for older ones.
func (o Owner) refersToThis(child *unstructured.Unstructured) bool {
	switch o.Definition.Dialect {
	case object.GraphDialect:
		return o.UID != "" && isOlder(child, o.unsignedBefore) && o.canControl(child) &&
			slices.ContainsFunc(child.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == o.UID })
	case object.ClaimDialect: // of its Secret it is the controller
		if key, _, claimed := ClaimedBy(child); claimed && key == o.Key() {
			return true
		}
	case object.CompositeDialect:
	}
	ref := metav1.GetControllerOfNoCopy(child)
	return ref != nil && o.UID != "" && ref.UID == o.UID && o.canControl(child)
}

// isOfOldInventory reports whether an object without signature was labelled before there was a signing key, in a
// namespace of the instance's inventory. Owner references don't reach other namespaces, and some children have none.
func (o Owner) isOfOldInventory(child *unstructured.Unstructured) bool {
	if !isOlder(child, o.unsignedBefore) {
		return false
	}
	_, recorded := o.namespaces[child.GetNamespace()]
	return recorded || child.GetNamespace() == "" || child.GetNamespace() == o.Namespace
}

// inventoryPrefix begins the value of ApplySetHashAnnotation that is signed. Values without it
// are of an earlier release, or of another engine.
const inventoryPrefix = "hmac-sha256:"

func inventoryMessage(instance object.Key, kinds, namespaces string) []byte {
	return message("espalier inventory "+signatureVersion,
		instance.Group, instance.Kind, instance.Namespace, instance.Name, kinds, namespaces)
}

// SignatureOfInventory is the value of ApplySetHashAnnotation. It is the same for each
// incarnation of the instance: so was what the former recorded.
func (k Keys) SignatureOfInventory(instance object.Key, kinds, namespaces string) string {
	id, hash := k.sign(inventoryMessage(instance, kinds, namespaces))
	return inventoryPrefix + strings.Join([]string{signatureVersion, id, hash}, ":")
}

func (k Keys) isInventoryOfUnknownKey(signature string) bool {
	text, signed := strings.CutPrefix(signature, inventoryPrefix)
	parts := strings.Split(text, ":")
	return signed && len(parts) == 3 && parts[0] == signatureVersion && k.isUnknown(parts[1])
}

func (k Keys) verifiesInventory(signature string, instance object.Key, kinds, namespaces string) bool {
	text, signed := strings.CutPrefix(signature, inventoryPrefix)
	parts := strings.Split(text, ":")
	return signed && len(parts) == 3 && parts[0] == signatureVersion &&
		k.verifies(inventoryMessage(instance, kinds, namespaces), parts[1], parts[2])
}

// recordedState says how far the inventory on an instance is to be believed.
type recordedState int

const (
	// untrusted: its signature is invalid, or it has none and the instance is too young for that.
	untrusted recordedState = iota
	// signed: its signature is valid.
	signed
	// unsignedIntact: it has no signature, the instance is of a time without, and its digest is right.
	unsignedIntact
	// unsignedOther: the same without the digest of an earlier release. It is another engine's, or
	// was changed by another writer.
	unsignedOther
)

func (o Owner) stateOf(instance *unstructured.Unstructured) recordedState {
	annotations := instance.GetAnnotations()
	hash := annotations[v1alpha1.ApplySetHashAnnotation]
	kinds, namespaces := annotations[v1alpha1.ApplySetKindsAnnotation], annotations[v1alpha1.ApplySetNamespacesAnnotation]
	switch {
	case o.Keys.verifiesInventory(hash, o.Key(), kinds, namespaces):
		return signed
	case strings.HasPrefix(hash, inventoryPrefix) && !o.Keys.isInventoryOfUnknownKey(hash):
		return untrusted
	case o.unsignedBefore.IsZero():
		return untrusted
	case hash == unkeyedHash(o.ID(), kinds, namespaces):
		return unsignedIntact
	}
	return unsignedOther
}

// Recorded is the inventory on an instance as far as it is to be believed: the namespaces only if they are signed, or
// if the instance is as old as the signing key and its inventory has no signature. The kinds are taken from the
// annotation, whatever client wrote it: children are looked for there, and each has to be proved.
func (o Owner) Recorded(instance *unstructured.Unstructured) Inventory {
	v := Read(instance)
	if o.stateOf(instance) == untrusted {
		clear(v.Namespaces)
	}
	return v
}

// IsIntact reports whether the inventory on an instance is complete: it is as this program, or an earlier release, has
// recorded it. If not, the instance may have children of kinds that it doesn't name. An instance without finalizer and
// label is one for which nothing was recorded yet: it has no children.
func (o Owner) IsIntact(instance *unstructured.Unstructured) bool {
	hasRecorded := slices.ContainsFunc(instance.GetFinalizers(), IsFinalizer) || instance.GetLabels()[v1alpha1.ApplySetIDLabel] != ""
	if !hasRecorded {
		return true
	}
	switch o.stateOf(instance) {
	case signed, unsignedIntact:
		return true
	case untrusted, unsignedOther:
	}
	return false
}

func unkeyedHash(id, kinds, namespaces string) string {
	return object.Digest([]string{id, kinds, namespaces})
}
