package execute

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// BindingName is the name of a binding. It derives from the key if the binding is exclusive and the key has a name, so
// only one binding can have the key; otherwise it derives from the managed resource's UID.
func BindingName(b *binding.BindingSpec) string {
	if b.Shared || b.Key.Name == "" {
		return "u-" + string(b.Owner.UID)
	}
	return keyName(b.Key)
}

// Reservation is the second binding, with its name, that keeps an assigned identity from
// being bound twice.
func Reservation(of *binding.BindingSpec, ref external.Ref) (name string, spec *binding.BindingSpec) {
	spec = of.DeepCopy()
	spec.Key.Name, spec.Ref, spec.Operation, spec.Phase = string(ref), string(ref), nil, binding.BindingBound
	spec.Shared = false
	return keyName(spec.Key), spec
}

func keyName(k binding.BindingKey) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{k.Scope, k.Type, k.Name}, "\x00")))
	return "k-" + hex.EncodeToString(sum[:16])
}
