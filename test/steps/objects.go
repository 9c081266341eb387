package steps

// Objects of the definitions, all named x.
const (
	Chain        = "apiVersion: sweep.example.com/v1alpha1\nkind: Chain\nmetadata: {name: x, namespace: $NS}\nspec: {value: one}\n"
	ChangedChain = "apiVersion: sweep.example.com/v1alpha1\nkind: Chain\nmetadata: {name: x, namespace: $NS}\nspec: {value: two}\n"
	ShrunkChain  = "apiVersion: sweep.example.com/v1alpha1\nkind: Chain\nmetadata: {name: x, namespace: $NS}\nspec: {value: one, extra: false}\n"
	Top          = "apiVersion: sweep.example.com/v1alpha1\nkind: Top\nmetadata: {name: x, namespace: $NS}\nspec: {source: late}\n"
	Late         = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: late, namespace: $NS}\ndata: {value: here}\n"
	Five         = "apiVersion: sweep.example.com/v1alpha1\nkind: Five\nmetadata: {name: x, namespace: $NS}\nspec: {value: one, crossplane: {compositionRef: {name: sweep-five}}}\n"
	ChangedFive  = "apiVersion: sweep.example.com/v1alpha1\nkind: Five\nmetadata: {name: x, namespace: $NS}\nspec: {value: two, crossplane: {compositionRef: {name: sweep-five}}}\n"
)

// Steps that create instances.
var (
	CreateChain = All(Apply(Chain), AwaitReady(Kind("Chain"), "one"))
	CreateNest  = All(Apply(Top), Apply(Late), AwaitReady(Kind("Top"), "here"))
)

// Patches of an object's metadata.
const (
	AddFinalizer    = `{"metadata":{"finalizers":["example.com/held"]}}`
	RemoveFinalizer = `{"metadata":{"finalizers":null}}`
	Protect         = `{"metadata":{"annotations":{"espalier.dev/protect":"holds the ledger"}}}`
	Unprotect       = `{"metadata":{"annotations":{"espalier.dev/protect":null}}}`
)
