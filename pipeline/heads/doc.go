// Package heads has what predicts and learns behind an engine: [Paper], the paper's two heads, and
// [Pool], the model's pool of heads, two implementations of [Serving]; and the [LearnQueue], in
// which batches of labels wait to be learned. It knows the graph only as far as heads read
// features and labels around a node.
package heads
