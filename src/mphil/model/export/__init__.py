"""The model part of a bundle for other programs: a torch.export or ONNX file that is proven to agree with the original.

What is exported takes the tensors of a batch of graphs and gives logits and embeddings. Reading molecules, calibration
and everything else about trust stay with the bundle.
"""

from mphil.model.export.write import Export, export_model, format_of

__all__ = ["Export", "export_model", "format_of"]
