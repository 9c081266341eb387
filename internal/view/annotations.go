package view

// Annotations that say what becomes of objects.
const (
	// protectAnnotation keeps an object while it is there.
	protectAnnotation = "espalier.dev/protect"
	// forceAnnotation names blockers that an instance is to let go of.
	forceAnnotation = "espalier.dev/force-delete"
	// onDeleteAnnotation says what becomes of an object whose instance goes.
	onDeleteAnnotation = "espalier.dev/on-delete"
)
