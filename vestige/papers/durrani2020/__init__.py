"""Durrani et al. 2020: individual neurons of pre-trained language models."""
