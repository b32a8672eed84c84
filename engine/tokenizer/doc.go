// Package tokenizer turns text into token ids and back, from the vocabulary that a checkpoint
// carries: byte-level BPE (GPT-2, Llama 3, Qwen, SmolLM, Spark), and SentencePiece BPE by score with
// byte fallback (Llama 2, Gemma). Results are those of llama.cpp and, where the two agree, of Hugging
// Face tokenizers; Qwen's NFC is applied as the latter does.
package tokenizer
