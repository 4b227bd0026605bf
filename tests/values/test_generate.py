# SPDX-License-Identifier: BSD-3-Clause
"""Language models, whose control flow reads values, take their real path."""

import pytest
import torch

transformers = pytest.importorskip("transformers")

pytestmark = [pytest.mark.npu, pytest.mark.filterwarnings("ignore")]

PROMPTS = torch.tensor([[1, 5, 9, 11], [1, 7, 8, 30]])


def gpt2():
    config = transformers.GPT2Config(
        vocab_size=97, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=1,
        eos_token_id=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def llama():
    config = transformers.LlamaConfig(
        vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def tokens_and_loss(make, device):
    torch.manual_seed(0)
    model = make().to(device).eval()
    prompts = PROMPTS.to(device)
    tokens = model.generate(
        prompts, max_new_tokens=16, do_sample=False, pad_token_id=0,
        attention_mask=torch.ones_like(prompts),
    )  # fmt: skip
    loss = model.train()(prompts, labels=prompts).loss
    loss.backward()
    gradients = torch.cat([p.grad.flatten().cpu() for p in model.parameters()])
    return tokens.cpu(), loss.item(), gradients


@pytest.mark.parametrize("make", [gpt2, llama])
def test_generates_the_same_tokens_as_on_the_cpu(computed, make):
    """Greedy generation ends after 16 tokens that are the CPU's, and so is a loss."""
    tokens, loss, gradients = tokens_and_loss(make, "cpu")
    npu_tokens, npu_loss, npu_gradients = tokens_and_loss(make, "npu:0")

    assert (2, 20) == npu_tokens.shape
    assert tokens.tolist() == npu_tokens.tolist()
    assert loss == pytest.approx(npu_loss, rel=1e-6)
    torch.testing.assert_close(npu_gradients, gradients, rtol=1e-4, atol=1e-6)
